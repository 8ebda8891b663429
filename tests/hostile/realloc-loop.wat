;; Never comes back when it is asked for memory.
(module
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (loop $again (br $again)) (unreachable))
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (call $say (i32.const 1))))

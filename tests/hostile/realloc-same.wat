;; Gives the same memory for everything, and returns what was written over it.
(module
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 65536))
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (call $ok (local.get $args) (local.get $args_len))))

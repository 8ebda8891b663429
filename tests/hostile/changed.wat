;; Says for ever that its tools have changed.
(module
  (import "layby:plugin/call@1.0.0" "changed" (func $changed (param i32 i32 i32)))
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (loop $again (call $changed (i32.const 0) (i32.const 0) (i32.const 0)) (br $again)) (unreachable)))

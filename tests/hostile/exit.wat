;; Ends the process, as it thinks.
(module
  (import "wasi:cli/exit@0.2.0" "exit" (func $exit (param i32)))
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (call $exit (i32.const 0)) (unreachable)))

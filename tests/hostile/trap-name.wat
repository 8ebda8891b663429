;; Traps in a function whose name is an escape sequence.
(module
  (func $trap (@name "\1b[2J\e2\80\ae gnp.exe\0a") (unreachable))
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (call $trap) (call $say (i32.const 1))))

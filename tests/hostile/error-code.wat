;; Fails with a code that is the protocol's own, and a message that repaints a terminal.
(module
  (data (i32.const 1024) "\1b[2J\e2\80\aeoops\07")
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (i32.store (i32.const 512) (i32.const 1))
    (i32.store (i32.const 516) (i32.const 1))
    (i32.store (i32.const 520) (i32.const -32021))
    (i32.store (i32.const 524) (i32.const 1024))
    (i32.store (i32.const 528) (i32.const 12))
    (i32.store (i32.const 532) (i32.const 0))
    (i32.const 512)))

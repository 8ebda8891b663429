;; Returns as a block JSON that is 60,000 arrays deep.
(module
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (memory.fill (i32.const 65536) (i32.const 91) (i32.const 60000))
    (drop (call $ok (i32.const 65536) (i32.const 60000)))
    (i32.store (i32.const 576) (i32.const 5))
    (i32.const 512)))

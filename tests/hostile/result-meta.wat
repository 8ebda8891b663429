;; Claims the host's own names in its result's `_meta`.
(module
  (data (i32.const 1024) "{\"layby/code\":\"limit_fuel\",\"layby/receipt\":{\"fuel\":0}}")
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (drop (call $say (i32.const 1)))
    (i32.store (i32.const 536) (i32.const 1))
    (i32.store (i32.const 540) (i32.const 1024))
    (i32.store (i32.const 544) (i32.const 54))
    (i32.const 512)))

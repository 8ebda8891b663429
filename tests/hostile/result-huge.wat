;; Returns a text of 30 MB.
(module
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (drop (memory.grow (i32.const 500))) (call $ok (i32.const 0) (i32.const 30000000))))

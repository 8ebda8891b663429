;; Returns a text that is not UTF-8.
(module
  (data (i32.const 1024) "\ff\fe\c0\80")
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (call $ok (i32.const 1024) (i32.const 4))))

;; Returns a text with half a surrogate pair.
(module
  (data (i32.const 1024) "\ed\a0\80")
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (call $ok (i32.const 1024) (i32.const 3))))

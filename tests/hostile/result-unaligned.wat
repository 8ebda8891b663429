;; Returns a result at an odd address.
(module
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (drop (call $say (i32.const 1))) (i32.const 513)))

;; Calls itself for ever.
(module
  (func $deeper (param $n i32) (result i32) (i32.add (i32.const 1) (call $deeper (i32.add (local.get $n) (i32.const 1)))))
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (call $say (call $deeper (i32.const 0)))))

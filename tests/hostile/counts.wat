;; Counts its calls in its memory, to tell the next caller of the one before.
(module
  (global $calls (mut i32) (i32.const 0))
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (i32.store (i32.const 8192) (i32.add (i32.const 1) (i32.load (i32.const 8192))))
    (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
    (call $say (i32.add (i32.load (i32.const 8192)) (global.get $calls)))))

;; Calls itself for ever, and its host from the very end of its stack.
(module
  (import "wasi:clocks/monotonic-clock@0.2.0" "now" (func $now (result i64)))
  (func $deeper (drop (call $now)) (call $deeper) (drop (call $now)))
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (call $deeper) (call $say (i32.const 0))))

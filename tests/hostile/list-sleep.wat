;; Waits in `list-tools` for a timer of a century.
(module
  (import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $timer (param i64) (result i32)))
  (import "wasi:io/poll@0.2.0" "[method]pollable.block" (func $block (param i32)))
  (func (export "layby:plugin/tools@1.0.0#list-tools") (result i32) (call $block (call $timer (i64.const 3000000000000000000))) (i32.const @LIST@)))

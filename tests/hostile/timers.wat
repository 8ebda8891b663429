;; Makes timers until it is told no.
(module
  (import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $timer (param i64) (result i32)))
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (loop $more (drop (call $timer (i64.const 3000000000000000000))) (br $more)) (unreachable)))

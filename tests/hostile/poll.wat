;; Waits for 100,000 timers at once.
(module
  (import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $timer (param i64) (result i32)))
  (import "wasi:io/poll@0.2.0" "poll" (func $poll (param i32 i32 i32)))
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32) (local $n i32)
    (drop (memory.grow (i32.const 8)))
    (loop $more
      (i32.store (i32.add (i32.const 131072) (i32.mul (local.get $n) (i32.const 4))) (call $timer (i64.const 3000000000000000000)))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $n) (i32.const 100000))))
    (call $poll (i32.const 131072) (i32.const 100000) (i32.const 1024))
    (call $say (i32.const 0))))

;; Asks 300,000 times in one poll for the same timer, again and again.
(module
  (import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $timer (param i64) (result i32)))
  (import "wasi:io/poll@0.2.0" "poll" (func $poll (param i32 i32 i32)))
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32) (local $n i32) (local $timer i32)
    (drop (memory.grow (i32.const 40)))
    (local.set $timer (call $timer (i64.const 1)))
    (loop $more
      (i32.store (i32.add (i32.const 131072) (i32.mul (local.get $n) (i32.const 4))) (local.get $timer))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $n) (i32.const 300000))))
    (loop $again
      (global.set $heap (i32.const 1400000))
      (call $poll (i32.const 131072) (i32.const 300000) (i32.const 1024))
      (br $again))
    (unreachable)))

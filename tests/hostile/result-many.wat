;; Returns a million blocks that are all the same megabyte.
(module
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32) (local $n i32)
    (drop (memory.grow (i32.const 1000)))
    (drop (call $ok (i32.const 131072) (i32.const 1000000)))
    (memory.fill (i32.const 131072) (i32.const 120) (i32.const 1000000))
    (i32.store (i32.const 516) (i32.const 1200000))
    (i32.store (i32.const 520) (i32.const 1000000))
    (loop $next
      (memory.copy (i32.add (i32.const 1200000) (i32.mul (local.get $n) (i32.const 56))) (i32.const 576) (i32.const 56))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $n) (i32.const 1000000))))
    (i32.const 512)))

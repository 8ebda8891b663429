(global $heap (mut i32) (i32.const 65536))
(func (export "cabi_realloc") (param i32 i32 i32) (param $len i32) (result i32) (local $at i32)
  (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
  (global.set $heap (i32.add (local.get $at) (local.get $len)))
  (loop $more
    (if (i32.gt_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536)))
      (then (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))))
  (local.get $at))

;; Lists 128 tools whose texts are all the same 4 MiB of its memory.
(module
  (memory (export "memory") 80)
  (func (export "layby:plugin/tools@1.0.0#list-tools") (result i32) (local $at i32) (local $n i32)
    (memory.fill (i32.const 131072) (i32.const 120) (i32.const 4194304))
    (local.set $at (i32.const 65536))
    (loop $next
      (memory.copy (local.get $at) (i32.sub (i32.const @LIST@) (i32.const 68)) (i32.const 68))
      (i32.store offset=20 (local.get $at) (i32.const 131072))
      (i32.store offset=24 (local.get $at) (i32.const 4194304))
      (local.set $at (i32.add (local.get $at) (i32.const 68)))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $n) (i32.const 128))))
    (i32.store (i32.const 1024) (i32.const 65536))
    (i32.store (i32.const 1028) (i32.const 128))
    (i32.const 1024)))

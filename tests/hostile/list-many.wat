;; Lists 100,000 tools, of whose records only one is in its memory.
(module
  (memory (export "memory") 200)
  (func (export "layby:plugin/tools@1.0.0#list-tools") (result i32) (local $at i32) (local $n i32)
    (local.set $at (i32.const 65536))
    (loop $next
      (memory.copy (local.get $at) (i32.sub (i32.const @LIST@) (i32.const 68)) (i32.const 68))
      (local.set $at (i32.add (local.get $at) (i32.const 68)))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $n) (i32.const 100000))))
    (i32.store (i32.const 1024) (i32.const 65536))
    (i32.store (i32.const 1028) (i32.const 100000))
    (i32.const 1024)))

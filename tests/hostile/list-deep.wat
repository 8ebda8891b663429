;; Has an input schema of 30,000 objects within each other.
(module
  (memory (export "memory") 20)
  (func (export "layby:plugin/tools@1.0.0#list-tools") (result i32) (local $n i32)
    (loop $next
      (memory.copy (i32.add (i32.const 131072) (i32.mul (local.get $n) (i32.const 7))) (i32.const 1024) (i32.const 7))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $n) (i32.const 30000))))
    (i32.store offset=28 (i32.sub (i32.const @LIST@) (i32.const 68)) (i32.const 131072))
    (i32.store offset=32 (i32.sub (i32.const @LIST@) (i32.const 68)) (i32.const 210000))
    (i32.const @LIST@))
  (data (i32.const 1024) "{\"not\":"))

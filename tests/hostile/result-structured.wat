;; Returns structured content that is 12,000 objects deep, and never closed.
(module
  (data (i32.const 1024) "{\"a\":")
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32) (local $n i32)
    (loop $next
      (memory.copy (i32.add (i32.const 65536) (i32.mul (local.get $n) (i32.const 5))) (i32.const 1024) (i32.const 5))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $n) (i32.const 12000))))
    (drop (call $say (i32.const 1)))
    (i32.store (i32.const 524) (i32.const 1))
    (i32.store (i32.const 528) (i32.const 65536))
    (i32.store (i32.const 532) (i32.const 60000))
    (i32.const 512)))

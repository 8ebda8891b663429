;; Grows four tables until it is told no.
(module
  (table 1 funcref) (table 1 funcref) (table 1 funcref) (table 1 funcref)
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32) (local $n i32)
    (loop $more
      (drop (table.grow 0 (ref.null func) (i32.const 1000))) (drop (table.grow 1 (ref.null func) (i32.const 1000)))
      (drop (table.grow 2 (ref.null func) (i32.const 1000))) (drop (table.grow 3 (ref.null func) (i32.const 1000)))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $n) (i32.const 10000))))
    (call $say (i32.add (table.size 0) (i32.add (table.size 1) (i32.add (table.size 2) (table.size 3)))))))

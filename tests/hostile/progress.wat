;; Reports progress for ever, with a message of 60 KB each.
(module
  (import "layby:plugin/call@1.0.0" "report-progress" (func $progress (param f64 i32 f64 i32 i32 i32)))
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32) (local $n f64)
    (memory.fill (i32.const 65536) (i32.const 120) (i32.const 60000))
    (loop $again
      (local.set $n (f64.add (local.get $n) (f64.const 1)))
      (call $progress (local.get $n) (i32.const 0) (f64.const 0) (i32.const 1) (i32.const 65536) (i32.const 60000))
      (br $again))
    (unreachable)))

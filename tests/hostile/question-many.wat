;; Puts a thousand questions at once.
(module
  (import "layby:plugin/call@1.0.0" "request-input" (func $request_input (param i32 i32 i32)))
  (data (i32.const 1040) "{\"type\":\"object\",\"properties\":{}}")
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32) (local $n i32)
    (drop (call $ask (i32.const 1024) (i32.const 0) (i32.const 1040) (i32.const 33)))
    (loop $next
      (memory.copy (i32.add (i32.const 8192) (i32.mul (local.get $n) (i32.const 28))) (i32.const 256) (i32.const 28))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $n) (i32.const 1000))))
    (call $request_input (i32.const 8192) (i32.const 1000) (i32.const 320))
    (call $told)))

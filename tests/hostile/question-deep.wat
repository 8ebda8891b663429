;; Asks with a schema of 60,000 arrays within each other.
(module
  (import "layby:plugin/call@1.0.0" "request-input" (func $request_input (param i32 i32 i32)))
  (data (i32.const 1024) "Again?")
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (memory.fill (i32.const 65536) (i32.const 91) (i32.const 60000))
    (if (call $ask (i32.const 1024) (i32.const 6) (i32.const 65536) (i32.const 60000)) (then (unreachable)))
    (call $told)))

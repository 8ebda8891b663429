;; Asks with a message of 20 MB, which is more than may be handed over at once.
(module
  (import "layby:plugin/call@1.0.0" "request-input" (func $request_input (param i32 i32 i32)))
  (data (i32.const 1040) "{\"type\":\"object\",\"properties\":{}}")
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (drop (memory.grow (i32.const 400)))
    (memory.fill (i32.const 131072) (i32.const 32) (i32.const 20000000))
    (if (call $ask (i32.const 131072) (i32.const 20000000) (i32.const 1040) (i32.const 33)) (then (unreachable)))
    (call $told)))

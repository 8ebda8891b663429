;; Asks its caller something while it lists, when there is none.
(module
  (import "layby:plugin/call@1.0.0" "request-input" (func $request_input (param i32 i32 i32)))
  (func (export "layby:plugin/tools@1.0.0#list-tools") (result i32)
    (if (call $ask (i32.const 1024) (i32.const 5) (i32.const 1040) (i32.const 33)) (then (unreachable)))
    (i32.const @LIST@))
  (data (i32.const 1024) "Token")
  (data (i32.const 1040) "{\"type\":\"object\",\"properties\":{}}"))

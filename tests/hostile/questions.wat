;; Asks for ever, whatever it is answered.
(module
  (import "layby:plugin/call@1.0.0" "request-input" (func $request_input (param i32 i32 i32)))
  (data (i32.const 1024) "Again?")
  (data (i32.const 1040) "{\"type\":\"object\",\"properties\":{}}")
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (loop $again
      (br_if $again (call $ask (i32.const 1024) (i32.const 6) (i32.const 1040) (i32.const 33))))
    (call $told)))

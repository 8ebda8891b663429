;; Tools for the targets of HTTP: one says what it was given, one asks, one reports.
;;@ [{"name":"told","schema":{"type":"object","properties":{"place":{"type":"string","x-mcp-header":"Place","maxLength":64},"when":{"type":["integer","null"],"minimum":0},"tags":{"type":"array","items":{"$ref":"#/$defs/tag"},"uniqueItems":true,"maxItems":8}},"required":["place"],"additionalProperties":false,"$defs":{"tag":{"anyOf":[{"type":"string","pattern":"^[a-z]+$"},{"const":0}]}}}},{"name":"asks","schema":{"type":"object","properties":{"url":{"type":"string","format":"uri"}}}},{"name":"reports"}]
(module
  (import "layby:plugin/call@1.0.0" "request-input" (func $request_input (param i32 i32 i32)))
  (import "layby:plugin/call@1.0.0" "report-progress" (func $progress (param f64 i32 f64 i32 i32 i32)))
  (import "layby:plugin/call@1.0.0" "log" (func $log (param i32 i32 i32)))
  (data (i32.const 1024) "Which?")
  (data (i32.const 1040) "{\"type\":\"object\",\"properties\":{\"which\":{\"type\":\"string\",\"enum\":[\"a\",\"b\"]},\"count\":{\"type\":\"integer\",\"maximum\":9}},\"required\":[\"which\"]}")
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (if (i32.eq (i32.load8_u (local.get $name)) (i32.const 97))
      (then
        (drop (call $ask (i32.const 1024) (i32.const 6) (i32.const 1040) (i32.const 135)))
        (return (call $told))))
    (if (i32.eq (i32.load8_u (local.get $name)) (i32.const 114))
      (then
        (call $progress (f64.const 1) (i32.const 1) (f64.const 2) (i32.const 1) (i32.const 1024) (i32.const 6))
        (call $log (i32.const 4) (local.get $args) (local.get $args_len))
        (call $progress (f64.const 2) (i32.const 0) (f64.const 0) (i32.const 0) (i32.const 0) (i32.const 0))))
    (call $ok (local.get $args) (local.get $args_len))))

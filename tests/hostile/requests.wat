;; Makes requests until it is told no, and sends none.
(module
  (import "wasi:http/types@0.2.0" "[constructor]fields" (func $fields (result i32)))
  (import "wasi:http/types@0.2.0" "[constructor]outgoing-request" (func $request (param i32) (result i32)))
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (loop $more (drop (call $request (call $fields))) (br $more)) (unreachable)))

;; Makes headers of 100 KB until it is told no.
(module
  (import "wasi:http/types@0.2.0" "[constructor]fields" (func $fields (result i32)))
  (import "wasi:http/types@0.2.0" "[method]fields.append" (func $append (param i32 i32 i32 i32 i32 i32)))
  (data (i32.const 1024) "a")
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (drop (memory.grow (i32.const 4)))
    (memory.fill (i32.const 131072) (i32.const 120) (i32.const 100000))
    (loop $more
      (call $append (call $fields) (i32.const 1024) (i32.const 1) (i32.const 131072) (i32.const 60000) (i32.const 1040))
      (br $more))
    (unreachable)))

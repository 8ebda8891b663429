;; Floods standard output with empty lines.
(module
  (import "wasi:cli/stdout@0.2.0" "get-stdout" (func $stdout (result i32)))
  (import "wasi:io/streams@0.2.0" "[method]output-stream.write" (func $write (param i32 i32 i32 i32)))
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32) (local $to i32)
    (local.set $to (call $stdout))
    (drop (memory.grow (i32.const 2)))
    (memory.fill (i32.const 131072) (i32.const 10) (i32.const 65536))
    (loop $again (call $write (local.get $to) (i32.const 131072) (i32.const 65536) (i32.const 1024)) (br $again))
    (unreachable)))

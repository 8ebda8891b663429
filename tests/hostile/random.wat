;; Asks for 4 MiB of random bytes again and again.
(module
  (import "wasi:random/random@0.2.0" "get-random-bytes" (func $bytes (param i64 i32)))
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (loop $again (global.set $heap (i32.const 131072)) (call $bytes (i64.const 4194304) (i32.const 1024)) (br $again)) (unreachable)))

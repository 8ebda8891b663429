;; Asks for one random number after the other.
(module
  (import "wasi:random/random@0.2.0" "get-random-u64" (func $random (result i64)))
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (loop $again (drop (call $random)) (br $again)) (unreachable)))

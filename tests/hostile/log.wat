;; Floods the log.
(module
  (import "layby:plugin/call@1.0.0" "log" (func $log (param i32 i32 i32)))
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (loop $again (call $log (i32.const 4) (i32.const 1024) (i32.const 100)) (br $again)) (unreachable)))

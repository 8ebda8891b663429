;; Says in every `list-tools` that its tools have changed.
(module
  (import "layby:plugin/call@1.0.0" "changed" (func $changed (param i32 i32 i32)))
  (func (export "layby:plugin/tools@1.0.0#list-tools") (result i32)
    (call $changed (i32.const 0) (i32.const 0) (i32.const 0)) (i32.const @LIST@)))

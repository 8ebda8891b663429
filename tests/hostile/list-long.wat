;; Describes its tool with a megabyte of text.
(module
  (memory (export "memory") 20)
  (func (export "layby:plugin/tools@1.0.0#list-tools") (result i32) (local $tool i32)
    (memory.fill (i32.const 131072) (i32.const 120) (i32.const 1048576))
    (local.set $tool (i32.sub (i32.const @LIST@) (i32.const 68)))
    (i32.store offset=20 (local.get $tool) (i32.const 131072))
    (i32.store offset=24 (local.get $tool) (i32.const 1048576))
    (i32.const @LIST@)))

;; Gives memory at an odd address for a list that must be aligned.
(module
  (import "wasi:filesystem/preopens@0.2.0" "get-directories" (func $folders (param i32)))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 65537))
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (call $folders (i32.const 1024)) (call $say (i32.const 1))))

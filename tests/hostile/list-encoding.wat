;; Names its tool with half a surrogate pair, as bytes.
(module
  (func (export "layby:plugin/tools@1.0.0#list-tools") (result i32)
    (i32.store (i32.sub (i32.const @LIST@) (i32.const 68)) (i32.const 1024))
    (i32.store offset=4 (i32.sub (i32.const @LIST@) (i32.const 68)) (i32.const 4))
    (i32.const @LIST@))
  (data (i32.const 1024) "a\ed\a0\80"))

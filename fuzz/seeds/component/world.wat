;; Exports `tools` with other types than a plugin's.
(component
  (core module $m (func (export "f") (result i32) (i32.const 0)))
  (core instance $i (instantiate $m))
  (func $f (result u32) (canon lift (core func $i "f")))
  (instance $tools (export "list-tools" (func $f)) (export "call-tool" (func $f)))
  (export "layby:plugin/tools@1.0.0" (instance $tools)))

;; Exports `tools` of a version that is not.
(component
  (core module $m (func (export "f")))
  (core instance $i (instantiate $m))
  (func $f (canon lift (core func $i "f")))
  (instance $tools (export "list-tools" (func $f)))
  (export "layby:plugin/tools@9.9.9" (instance $tools)))

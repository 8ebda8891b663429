;; Exports a function that takes a resource, which no caller could give.
(component
  (type $r (resource (rep i32)))
  (export $e "r" (type $r))
  (core module $m (func (export "f") (param i32)))
  (core instance $i (instantiate $m))
  (func $f (param "r" (own $e)) (canon lift (core func $i "f")))
  (export "f" (func $f)))

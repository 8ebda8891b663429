;; Makes handles of a resource of its own, for ever.
(component
  (type $r (resource (rep i32)))
  (core func $new (canon resource.new $r))
  (core module $m
    (import "r" "new" (func $new (param i32) (result i32)))
    (func (export "f") (loop $more (drop (call $new (i32.const 1))) (br $more))))
  (core instance $i (instantiate $m (with "r" (instance (export "new" (func $new))))))
  (func $f (canon lift (core func $i "f")))
  (export "handles" (func $f)))

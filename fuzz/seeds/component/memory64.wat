;; Has a memory of 64-bit addresses.
(component (core module $m (memory i64 1)) (core instance $i (instantiate $m)))

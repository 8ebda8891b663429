;; Has a memory that threads share.
(component (core module $m (memory 1 1 shared)) (core instance $i (instantiate $m)))

;; Has a table of a hundred million elements.
(component (core module $m (table 100000000 funcref)) (core instance $i (instantiate $m)))

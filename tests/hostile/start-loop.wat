;; Never comes out of its start function.
(module (start $start) (func $start (loop $again (br $again))))

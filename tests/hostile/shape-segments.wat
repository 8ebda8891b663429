;; Fills a memory of 4 GiB by data segments at both of its ends when it is instantiated.
(module
  (memory (export "memory") 65536)
  (data (i32.const 0) "low")
  (data (i32.const -4) "high"))

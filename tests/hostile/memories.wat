;; Grows five memories by turns.
(module
  (memory (export "memory") 2) (memory 1) (memory 1) (memory 1) (memory 1)
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (loop $more
      (drop (memory.grow 1 (i32.const 16))) (drop (memory.grow 2 (i32.const 16)))
      (drop (memory.grow 3 (i32.const 16))) (drop (memory.grow 4 (i32.const 16)))
      (br $more))
    (unreachable)))

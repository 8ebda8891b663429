;; Writes all of its memory again and again, by one instruction each.
(module
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (drop (memory.grow (i32.const 900)))
    (loop $again
      (memory.fill (i32.const 8192) (i32.const 7) (i32.const 58000000))
      (memory.copy (i32.const 8192) (i32.const 16384) (i32.const 58000000))
      (br $again))
    (unreachable)))

;; Grows its memory until it is told no.
(module
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) (call $say (memory.size))))

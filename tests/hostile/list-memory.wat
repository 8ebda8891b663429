;; Grows its memory in `list-tools` until it is told no.
(module
  (func (export "layby:plugin/tools@1.0.0#list-tools") (result i32)
    (loop $more (br_if $more (i32.ne (memory.grow (i32.const 64)) (i32.const -1))))
    (i32.const @LIST@)))

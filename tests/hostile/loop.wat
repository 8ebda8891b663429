;; Computes for ever.
(module
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32)
    (loop $again (br $again)) (unreachable)))

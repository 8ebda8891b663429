;; Makes sockets until it is told no.
(module
  (import "wasi:sockets/tcp-create-socket@0.2.0" "create-tcp-socket" (func $socket (param i32 i32)))
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32) (local $n i32)
    (loop $more
      (call $socket (i32.const 0) (i32.const 1024))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $more (i32.eqz (i32.load8_u (i32.const 1024)))))
    (call $say (local.get $n))))

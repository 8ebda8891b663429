;; Lists its folder again and again, and keeps each listing.
(module
  (import "wasi:filesystem/preopens@0.2.0" "get-directories" (func $folders (param i32)))
  (import "wasi:filesystem/types@0.2.0" "[method]descriptor.read-directory" (func $list (param i32 i32)))
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32) (local $n i32)
    (call $folders (i32.const 1024))
    (loop $more
      (call $list (i32.load (i32.load (i32.const 1024))) (i32.const 1040))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $more (i32.eqz (i32.load8_u (i32.const 1040)))))
    (call $say (local.get $n))))

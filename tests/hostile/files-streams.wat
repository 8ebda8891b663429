;; Opens a file again and again, and keeps of each only a stream, which holds it open.
(module
  (import "wasi:filesystem/preopens@0.2.0" "get-directories" (func $folders (param i32)))
  (import "wasi:filesystem/types@0.2.0" "[method]descriptor.open-at" (func $open (param i32 i32 i32 i32 i32 i32 i32)))
  (import "wasi:filesystem/types@0.2.0" "[method]descriptor.read-via-stream" (func $stream (param i32 i64 i32)))
  (import "wasi:filesystem/types@0.2.0" "[resource-drop]descriptor" (func $close (param i32)))
  (data (i32.const 1100) "bait.")
  (func (export "layby:plugin/tools@1.0.0#call-tool") (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32) (result i32) (local $folder i32) (local $n i32)
    (call $folders (i32.const 1024))
    (local.set $folder (i32.load (i32.load (i32.const 1024))))
    (loop $more
      (call $open (local.get $folder) (i32.const 0) (i32.const 1100) (i32.const 5) (i32.const 0) (i32.const 1) (i32.const 1040))
      (if (i32.load8_u (i32.const 1040)) (then (unreachable)))
      (call $stream (i32.load (i32.const 1044)) (i64.const 0) (i32.const 1048))
      (call $close (i32.load (i32.const 1044)))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $more (i32.eqz (i32.load8_u (i32.const 1048)))))
    (call $say (local.get $n))))

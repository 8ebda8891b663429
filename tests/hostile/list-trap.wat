;; Traps in `list-tools`, in a function whose name is an escape sequence.
(module (func $trap (@name "\1b[2J\e2\80\ae gnp.exe") (unreachable))
  (func (export "layby:plugin/tools@1.0.0#list-tools") (result i32) (call $trap) (i32.const @LIST@)))

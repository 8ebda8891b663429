;; Imports what no host should have.
(component (import "wasi:root/shell@0.2.0" (instance (export "exec" (func (param "command" string))))))

;; Is a core module, and no component.
(module (;@ (component ;) (func (export "f")))

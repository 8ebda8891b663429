;; Names a tool with terminal escapes and a change of direction.
;;@ [{"name": "a\u001b[2J\u202eb"}]
(module)

;; Has a pattern that takes other engines an age, and a call that meets it.
;;@ [{"schema": {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}}}}]
(module)

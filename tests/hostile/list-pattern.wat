;; Has a pattern in its schema that compiles to billions of states.
;;@ [{"schema": {"type": "object", "properties": {"a": {"type": "string", "pattern": "^((((a{1000}){1000}){1000}){1000})$"}}}}]
(module)

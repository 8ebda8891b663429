;; Refers in its schema to a file of the host.
;;@ [{"schema": {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}}]
(module)

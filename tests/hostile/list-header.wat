;; Wants an argument mirrored in a header that is HTTP's own, with a line end in its name.
;;@ [{"schema": {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A\r\nAuthorization"}}}}]
(module)

;; Wants two arguments mirrored in one header.
;;@ [{"schema": {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "Key"}, "b": {"type": "string", "x-mcp-header": "key"}}}}]
(module)

;; Has a schema whose references go round, and never come to anything.
;;@ [{"schema": {"type": "object", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}, "allOf": [{"$ref": "#/$defs/a"}]}}]
(module)

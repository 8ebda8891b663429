;; Has a schema that costs eight times as much for each level of its arguments.
;;@ [{"schema": {"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#", "required": ["b"]}, {"$ref": "#", "required": ["c"]}, {"$ref": "#", "required": ["d"]}, {"$ref": "#", "required": ["e"]}, {"$ref": "#", "required": ["f"]}, {"$ref": "#", "required": ["g"]}, {"$ref": "#", "required": ["h"]}, {"$ref": "#", "required": ["i"]}]}}}}]
(module)

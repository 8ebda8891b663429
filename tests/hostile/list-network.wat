;; Refers in its schema to a server in the network.
;;@ [{"schema": {"type": "object", "properties": {"a": {"$ref": "http://169.254.169.254/latest/meta-data"}}}}]
(module)

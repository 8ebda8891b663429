;; Lists two tools of one name.
;;@ [{"name": "twice"}, {"name": "twice"}]
(module)

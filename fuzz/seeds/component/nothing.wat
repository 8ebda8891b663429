;; Exports nothing at all.
(component)

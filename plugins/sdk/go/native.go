//go:build !wasip1

package layby

func configValue(key string) (string, bool) {
	outside.Lock()
	defer outside.Unlock()
	value, ok := outside.config[key]
	return value, ok
}

func logLine(level uint32, context, message string) {
	outside.Lock()
	defer outside.Unlock()
	if outside.lines != nil {
		outside.lines(level, context, message)
	}
}

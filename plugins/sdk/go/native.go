//go:build !wasip1

package layby

import "sync"

// What stands in outside the sandbox for what is not of a call.
var outside struct {
	sync.Mutex
	config map[string]string
	lines  func(level uint32, context, message string)
}

// SetConfig gives tests other values of configuration, and returns those before; laybytest.SetConfig sets them back.
// It is not there in the sandbox.
func SetConfig(values map[string]string) (before map[string]string) {
	outside.Lock()
	defer outside.Unlock()
	before, outside.config = outside.config, values
	return before
}

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

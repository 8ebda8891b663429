package layby

import "sync"

// What stands in outside the sandbox for what is not of a call.
var outside struct {
	sync.Mutex
	config map[string]string
	lines  func(level uint32, context, message string)
}

// SetConfig gives tests other values of configuration, and returns those before; laybytest.SetConfig sets them back.
// In the sandbox it changes nothing.
func SetConfig(values map[string]string) (before map[string]string) {
	outside.Lock()
	defer outside.Unlock()
	before, outside.config = outside.config, values
	return before
}

// SetLogLines gives what a log handler writes to a function, and returns the one before; laybytest.LogLines sets it
// back. In the sandbox it changes nothing.
func SetLogLines(lines func(level uint32, context, message string)) (before func(uint32, string, string)) {
	outside.Lock()
	defer outside.Unlock()
	before, outside.lines = outside.lines, lines
	return before
}

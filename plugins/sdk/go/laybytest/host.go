// Package laybytest stands in for the host, so that tools can be tested with the ordinary go test.
//
//	func TestGreet(t *testing.T) {
//		host := laybytest.New(laybytest.Accept(`{"name":"Ada"}`))
//		text, err := host.CallText("greet", `{}`)
//		if err != nil || text != "Hello, Ada!" {
//			t.Fatal(text, err)
//		}
//	}
package laybytest

import (
	"encoding/json"
	"math"
	"sync"
	"testing"

	"layby.dev/layby"
)

// A Host answers as it is told, and remembers what a tool said. It may be used from several goroutines.
type Host struct {
	mutex       sync.Mutex
	replies     []layby.Reply
	cancels     bool
	checks      int
	unsupported map[layby.Kind]bool
	asked       []layby.Request
	progress    []Progress
	logged      []Line
	changed     []layby.Change
}

// Progress is one report of progress.
type Progress struct {
	Done float64
	// Total is 0 where there is none.
	Total   float64
	Message string
}

// Line is one line of [layby.Call.Log].
type Line struct {
	Level   layby.Level
	Message string
}

// New is a host that gives these answers, in the order in which questions come, and cancels nothing. A
// question that has no answer left is unsupported.
func New(replies ...layby.Reply) *Host {
	return &Host{replies: replies}
}

// Accept is an answer: a form's content, or MCP's result object, as JSON.
func Accept(content string) layby.Reply {
	return layby.Reply{Outcome: layby.Accepted, JSON: json.RawMessage(content)}
}

// Decline is the answer of a caller who says no.
func Decline() layby.Reply {
	return layby.Reply{Outcome: layby.Declined}
}

// Dismiss is the answer of a caller who closes the question.
func Dismiss() layby.Reply {
	return layby.Reply{Outcome: layby.Dismissed}
}

// CancelAfter cancels the call after checks for it that still said no.
func (h *Host) CancelAfter(checks int) *Host {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.cancels, h.checks = true, checks
	return h
}

// Without makes the host one whose client cannot answer these kinds of question.
func (h *Host) Without(kinds ...layby.Kind) *Host {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.unsupported == nil {
		h.unsupported = map[layby.Kind]bool{}
	}
	for _, kind := range kinds {
		h.unsupported[kind] = true
	}
	return h
}

// Call is a call of this host, for a function that takes one.
func (h *Host) Call() *layby.Call {
	return layby.NewCall(h)
}

// CallTool calls a tool by its name as the host does, with arguments as JSON. The error is the tool's own: see
// [errors.Is] and [errors.As]. The host's check of arguments against the schema is not done here.
func (h *Host) CallTool(name, arguments string) (*layby.Result, error) {
	return layby.Serve(h.Call(), name, []byte(arguments))
}

// CallText is CallTool for a tool whose result begins with a text: that text.
func (h *Host) CallText(name, arguments string) (string, error) {
	result, err := h.CallTool(name, arguments)
	if err != nil || len(result.Content) == 0 {
		return "", err
	}
	text, _ := result.Content[0].(layby.Text)
	return string(text), nil
}

// Asked are the questions that were put so far.
func (h *Host) Asked() []layby.Request {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return append([]layby.Request(nil), h.asked...)
}

// Progress is what was reported so far.
func (h *Host) Progress() []Progress {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return append([]Progress(nil), h.progress...)
}

// Logged are the lines of the call's log so far.
func (h *Host) Logged() []Line {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return append([]Line(nil), h.logged...)
}

// Changes are what was said to have changed so far.
func (h *Host) Changes() []layby.Change {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return append([]layby.Change(nil), h.changed...)
}

// ReportProgress implements [layby.Host].
func (h *Host) ReportProgress(done, total float64, message string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if math.IsNaN(total) {
		total = 0
	}
	h.progress = append(h.progress, Progress{done, total, message})
}

// CheckCancelled implements [layby.Host].
func (h *Host) CheckCancelled() bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.cancels && h.checks > 0 {
		h.checks--
		return false
	}
	return h.cancels
}

// Log implements [layby.Host].
func (h *Host) Log(level layby.Level, message string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.logged = append(h.logged, Line{level, message})
}

// Supports implements [layby.Host].
func (h *Host) Supports(kind layby.Kind) bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return !h.unsupported[kind]
}

// Changed implements [layby.Host].
func (h *Host) Changed(what layby.Change) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.changed = append(h.changed, what)
}

// RequestInput implements [layby.Host].
func (h *Host) RequestInput(requests []layby.Request) ([]layby.Reply, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.asked = append(h.asked, requests...)
	for _, request := range requests {
		if h.unsupported[request.Kind] {
			return nil, layby.ErrUnsupported
		}
	}
	if len(h.replies) < len(requests) {
		return nil, layby.ErrUnsupported
	}
	replies := h.replies[:len(requests)]
	h.replies = h.replies[len(requests):]
	return replies, nil
}

// SetConfig gives [layby.Config] these values until the test ends. Like t.Setenv it is not for parallel tests.
func SetConfig(t testing.TB, values map[string]string) {
	t.Helper()
	before := layby.SetConfig(values)
	t.Cleanup(func() { layby.SetConfig(before) })
}

// LogLine is one line that log/slog wrote by [layby.NewLogHandler].
type LogLine struct {
	// Level is trace, debug, info, warn, error or critical.
	Level            string
	Context, Message string
}

// LogLines gathers the lines of log/slog until the test ends; the function returns those so far. Like
// t.Setenv it is not for parallel tests.
func LogLines(t testing.TB) func() []LogLine {
	t.Helper()
	var mutex sync.Mutex
	var lines []LogLine
	levels := [...]string{"trace", "debug", "info", "warn", "error", "critical"}
	before := layby.SetLogLines(func(level uint32, context, message string) {
		mutex.Lock()
		defer mutex.Unlock()
		lines = append(lines, LogLine{levels[level], context, message})
	})
	t.Cleanup(func() { layby.SetLogLines(before) })
	return func() []LogLine {
		mutex.Lock()
		defer mutex.Unlock()
		return append([]LogLine(nil), lines...)
	}
}

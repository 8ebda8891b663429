package layby

import "math"

// A Call is the call that a tool is serving: what it can tell its host, and ask of it.
type Call struct {
	host Host
}

// NewCall is a call of this host, for tests.
func NewCall(host Host) *Call {
	return &Call{host}
}

// A Host is what stands behind a [Call]: the real one in the sandbox, and laybytest.Host in tests.
type Host interface {
	// ReportProgress is told a total that is not finite where there is none.
	ReportProgress(done, total float64, message string)
	CheckCancelled() bool
	Log(level Level, message string)
	Supports(kind Kind) bool
	Changed(what Change)
	// RequestInput answers all requests in their order.
	RequestInput(requests []Request) ([]Reply, error)
}

// Progress says how far the call has come: done of total units, or of nobody knows how many where total is
// 0 or less. The host drops values that do not increase, and may thin out the rest.
func (c *Call) Progress(done, total float64, message string) {
	if !(total > 0) {
		total = math.NaN()
	}
	c.host.ReportProgress(done, total, message)
}

// Cancelled is true once the caller has asked for cancellation. The instance is stopped by force when
// its grace period ends.
func (c *Call) Cancelled() bool {
	return c.host.CheckCancelled()
}

// Check returns [ErrCancelled] once the caller has asked for cancellation. Call it before every effect
// that others can see, and now and then in a long loop.
func (c *Call) Check() error {
	if c.Cancelled() {
		return ErrCancelled
	}
	return nil
}

// Log writes a line to the operator's log, and to the caller's client where it asked for them.
func (c *Call) Log(level Level, message string) {
	c.host.Log(level, message)
}

// Supports tells whether the caller's client can answer this kind of question, and this plugin may ask it.
func (c *Call) Supports(kind Kind) bool {
	return c.host.Supports(kind)
}

// Changed says that a list or a resource has changed.
func (c *Call) Changed(what Change) {
	c.host.Changed(what)
}

// Level is how serious a line of [Call.Log] is.
type Level uint32

// The levels, from the least serious.
const (
	LevelDebug Level = iota
	LevelInfo
	LevelNotice
	LevelWarning
	LevelError
	LevelCritical
)

// Kind is a kind of question.
type Kind uint32

// The kinds of question.
const (
	KindForm Kind = iota
	KindURL
	KindSampling
	KindRoots
)

// Change is something that has changed: [ToolsChanged], [PromptsChanged], [ResourcesChanged] or [ContentsChanged].
type Change struct {
	what uint32
	uri  string
}

// Lists that can change.
var (
	ToolsChanged     = Change{what: 0}
	PromptsChanged   = Change{what: 1}
	ResourcesChanged = Change{what: 2}
)

// ContentsChanged says that what the resource with this URI holds has changed.
func ContentsChanged(uri string) Change {
	return Change{what: 3, uri: uri}
}

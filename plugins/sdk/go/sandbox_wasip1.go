package layby

import (
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"unsafe"
)

// The functions of the interface that the host has.

//go:wasmimport layby:plugin/call@1.0.0 report-progress
func hostReportProgress(progress float64, hasTotal uint32, total float64, hasMessage uint32, message unsafe.Pointer, length uint32)

//go:wasmimport layby:plugin/call@1.0.0 check-cancelled
func hostCheckCancelled() uint32

//go:wasmimport layby:plugin/call@1.0.0 log
func hostLog(level uint32, message unsafe.Pointer, length uint32)

//go:wasmimport layby:plugin/call@1.0.0 supports
func hostSupports(kind uint32) uint32

//go:wasmimport layby:plugin/call@1.0.0 changed
func hostChanged(what uint32, uri unsafe.Pointer, length uint32)

//go:wasmimport layby:plugin/call@1.0.0 request-input
func hostRequestInput(requests uint32, count uint32, result unsafe.Pointer)

//go:wasmimport wasi:config/store@0.2.0-draft get
func hostConfigGet(key unsafe.Pointer, length uint32, result unsafe.Pointer)

//go:wasmimport wasi:logging/logging@0.1.0-draft log
func hostLogging(level uint32, context unsafe.Pointer, contextLength uint32, message unsafe.Pointer, length uint32)

// The adapter to WASI's preview 1 has this for runtimes like Go's: while a value is made room for, nothing of the
// host may be called, and Go's collector reads the clock.
//
//go:wasmimport wasi_snapshot_preview1 adapter_monotonic_clock_set_paused
func adapterPauseClock(paused uint32)

// Room for values that the host writes.
var room struct {
	// early is what the adapter is given before Go's runtime has started, and keeps for ever. It asks for
	// two pages.
	early     [20 << 10]uint64
	earlyUsed uint32
	started   bool
	// spare was allocated while that was allowed, so that most values need no allocation when they come.
	spare []uint64
	// lifted keeps what else the host was given until it has been read.
	lifted [][]uint64
}

// spareWords is 64 KiB: more than most arguments and answers.
const spareWords = 8 << 10

// collect is the collector's own setting; it does not run before the first call's arguments are read.
var collect int

func init() {
	collect = debug.SetGCPercent(-1)
	refill()
	room.started = true
}

// refill makes room before the host may need some.
func refill() {
	if len(room.spare) < spareWords/2 {
		room.spare = make([]uint64, spareWords)
	}
}

// realloc makes room for a value. The host only ever asks for new room.
//
//go:wasmexport cabi_realloc
func realloc(_ unsafe.Pointer, oldSize, align, size uint32) unsafe.Pointer {
	words := (size + 7) / 8
	switch {
	case oldSize != 0 || align > 8:
		return nil
	case size == 0:
		return unsafe.Pointer(uintptr(align))
	case !room.started:
		if words > uint32(len(room.early))-room.earlyUsed {
			return nil
		}
		at := &room.early[room.earlyUsed]
		room.earlyUsed += words
		return unsafe.Pointer(at)
	case words <= uint32(len(room.spare)):
		at := &room.spare[0]
		room.spare = room.spare[words:]
		return unsafe.Pointer(at)
	}
	adapterPauseClock(1)
	made := make([]uint64, words)
	room.lifted = append(room.lifted, made)
	adapterPauseClock(0)
	return unsafe.Pointer(&made[0])
}

// sandbox is this instance's memory. What it has given addresses of stays where it is until it is dropped.
type sandbox struct {
	kept []any
}

func (s *sandbox) text(text string) uint32 {
	at := unsafe.StringData(text)
	s.kept = append(s.kept, at)
	return uint32(uintptr(unsafe.Pointer(at)))
}

func (s *sandbox) words(words []uint32) uint32 {
	at := unsafe.SliceData(words)
	s.kept = append(s.kept, at)
	return uint32(uintptr(unsafe.Pointer(at)))
}

func (s *sandbox) word(at uint32) uint32 {
	return *(*uint32)(unsafe.Pointer(uintptr(at)))
}

func (s *sandbox) read(at, length uint32) string {
	// No copy: the text keeps the room that it lies in.
	return unsafe.String((*byte)(unsafe.Pointer(uintptr(at))), length)
}

// answered is what the host reads the results of exports from; it says when it has.
var answered sandbox

//go:wasmexport layby:plugin/tools@1.0.0#list-tools
func exportListTools() uint32 {
	return writeTools(&answered, tools)
}

//go:wasmexport cabi_post_layby:plugin/tools@1.0.0#list-tools
func exportListToolsRead(uint32) {
	answered.kept = nil
}

//go:wasmexport layby:plugin/tools@1.0.0#call-tool
func exportCallTool(name unsafe.Pointer, nameLength uint32, arguments unsafe.Pointer, length uint32) uint32 {
	debug.SetGCPercent(collect)
	named := unsafe.String((*byte)(name), nameLength)
	given := unsafe.Slice((*byte)(arguments), length)
	room.lifted = nil
	result, err := Serve(NewCall(host{}), named, given)
	return writeOutcome(&answered, result, err)
}

//go:wasmexport cabi_post_layby:plugin/tools@1.0.0#call-tool
func exportCallToolRead(uint32) {
	answered.kept = nil
}

// host is the real one.
type host struct{}

func (host) ReportProgress(done, total float64, message string) {
	hasTotal, hasMessage := uint32(1), uint32(0)
	if math.IsNaN(total) {
		hasTotal, total = 0, 0
	}
	if message != "" {
		hasMessage = 1
	}
	at, length := parts(message)
	hostReportProgress(done, hasTotal, total, hasMessage, at, length)
	runtime.KeepAlive(at)
}

func (host) CheckCancelled() bool {
	return hostCheckCancelled() != 0
}

func (host) Log(level Level, message string) {
	at, length := parts(message)
	hostLog(uint32(level), at, length)
	runtime.KeepAlive(at)
}

func (host) Supports(kind Kind) bool {
	return hostSupports(uint32(kind)) != 0
}

func (host) Changed(what Change) {
	at, length := parts(what.uri)
	hostChanged(what.what, at, length)
	runtime.KeepAlive(at)
}

func (host) RequestInput(requests []Request) ([]Reply, error) {
	memory := &sandbox{}
	at, count := writeRequests(memory, requests)
	refill()
	result := new([4]uint32)
	hostRequestInput(at, count, unsafe.Pointer(result))
	replies, err := readReplies(memory, uint32(uintptr(unsafe.Pointer(result))))
	room.lifted = nil
	runtime.KeepAlive(result)
	runtime.KeepAlive(memory)
	return replies, err
}

func configValue(key string) (string, bool) {
	refill()
	at, length := parts(key)
	result := new([4]uint32)
	hostConfigGet(at, length, unsafe.Pointer(result))
	value, ok := readValue(&sandbox{}, uint32(uintptr(unsafe.Pointer(result))))
	room.lifted = nil
	runtime.KeepAlive(at)
	runtime.KeepAlive(result)
	return value, ok
}

func logLine(level uint32, context, message string) {
	contextAt, contextLength := parts(context)
	at, length := parts(message)
	hostLogging(level, contextAt, contextLength, at, length)
	runtime.KeepAlive(contextAt)
	runtime.KeepAlive(at)
}

// parts is a text as a function of the host takes it. The caller keeps the pointer until then.
func parts(text string) (unsafe.Pointer, uint32) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	return unsafe.Pointer(unsafe.StringData(text)), uint32(len(text))
}

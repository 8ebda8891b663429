package layby

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
)

// Tool makes a function a tool of this plugin. Call it in init; it panics where the tool cannot be one.
//
// The name is 1 to 128 letters, digits and _ - . and the description is what a model reads of it. A is a
// struct of the arguments, or struct{} for none; fields are named by their json tag, and these tags tell more:
//
//	desc:"…"       what the field is, for the model
//	title:"…"      its name for people, in a form
//	enum:"a,b"     the texts, or the whole numbers, that it may be
//	min:"1"        least number, shortest text in characters, or fewest elements
//	max:"9"        likewise, the most
//	format:"date"  email, uri, date or date-time
//	default:"…"    its value where it is not given, as JSON, or as it stands for a text
//
// A field may be left out where it is a pointer, has a default, or its json tag has omitempty or omitzero. The
// host checks every call against the schema, so that the function sees only arguments that fit.
//
// R is what the tool gives: text, a number, a struct or a map with strings as keys (structured content, with an
// output schema), [Structured], any [Content], []Content, [Result], or struct{} for nothing.
//
// An error is a result that the model reads; [ErrCancelled], [ErrUnsupported] and [ProtocolError], also
// wrapped, are what they say. A panic is an error with its message, and its stack goes to standard error.
func Tool[A, R any](name, description string, body func(*Call, A) (R, error), options ...Option) {
	made := tool{name: name, description: description}
	fail := func(err error) {
		if err != nil {
			panic(fmt.Sprintf("layby: tool %q: %v", name, err))
		}
	}
	fail(checkName(name))
	input, err := argumentsSchema(reflect.TypeFor[A]())
	fail(err)
	made.inputSchema = input.encode()
	output, err := outputType[R]()
	fail(err)
	if output != nil {
		schema, err := outputSchema(output)
		fail(err)
		made.outputSchema = schema.encode()
	}
	for _, option := range options {
		option(&made)
	}
	made.serve = func(call *Call, arguments []byte) (*Result, error) {
		var args A
		setDefaults(reflect.ValueOf(&args).Elem())
		if err := readJSON(arguments, &args); err != nil {
			return nil, fmt.Errorf("the arguments do not fit: %w", err)
		}
		value, err := body(call, args)
		if err != nil {
			return nil, err
		}
		return resultOf(value)
	}
	tools = append(tools, &made)
}

// An Option says more of a tool.
type Option func(*tool)

// Title is the tool's name for people.
func Title(title string) Option {
	return func(t *tool) { t.title = title }
}

// ReadOnly says that the tool changes nothing. The host grants nothing by this or the other hints.
func ReadOnly() Option {
	return func(t *tool) { t.hints.readOnly = yes }
}

// Destructive says whether what the tool changes may be lost.
func Destructive(is bool) Option {
	return func(t *tool) { t.hints.destructive = told(is) }
}

// Idempotent says that calling the tool again with the same arguments changes nothing more.
func Idempotent() Option {
	return func(t *tool) { t.hints.idempotent = yes }
}

// OpenWorld says whether the tool deals with more than what it is granted here.
func OpenWorld(is bool) Option {
	return func(t *tool) { t.hints.openWorld = told(is) }
}

// Extra is the MCP tool's icons and _meta, as one JSON object.
func Extra(object json.RawMessage) Option {
	return func(t *tool) { t.extra = object }
}

// tool is one that this plugin has.
type tool struct {
	name, title, description string
	inputSchema              []byte
	outputSchema             []byte
	hints                    hints
	extra                    []byte
	serve                    func(call *Call, arguments []byte) (*Result, error)
}

// hint is a boolean that may not be told.
type hint byte

const (
	untold hint = iota
	no
	yes
)

func told(is bool) hint {
	if is {
		return yes
	}
	return no
}

type hints struct {
	readOnly, destructive, idempotent, openWorld hint
}

// tools are those of this plugin, in the order in which they were made.
var tools []*tool

func checkName(name string) error {
	if len(name) < 1 || len(name) > 128 {
		return fmt.Errorf("its name has %d characters, and may have 1 to 128", len(name))
	}
	for _, c := range name {
		letter := c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !letter && c != '_' && c != '-' && c != '.' {
			return fmt.Errorf("its name has %q: only letters, digits and _ - . may be there", c)
		}
	}
	for _, other := range tools {
		if other.name == name {
			return fmt.Errorf("there is another one of this name")
		}
	}
	return nil
}

// Serve serves one call as the host has it: with arguments as JSON text. It is for tests: laybytest.Host has it as
// CallTool.
func Serve(call *Call, name string, arguments []byte) (result *Result, err error) {
	defer func() {
		if value := recover(); value != nil {
			fmt.Fprintf(os.Stderr, "panic in the tool %q: %v\n%s", name, value, debug.Stack())
			result, err = nil, panicked(value)
		}
	}()
	for _, tool := range tools {
		if tool.name == name {
			return tool.serve(call, arguments)
		}
	}
	return nil, &ProtocolError{Code: CodeInvalidParams, Message: fmt.Sprintf("this plugin has no tool `%s`", name)}
}

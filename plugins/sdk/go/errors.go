package layby

import (
	"encoding/json"
	"errors"
	"fmt"
)

// How a call can end without a result of its own. They may be wrapped: [errors.Is] finds them.
var (
	// ErrCancelled says that the caller asked for the call to be cancelled.
	ErrCancelled = errors.New("the call was cancelled")
	// ErrUnsupported says that the caller's client cannot answer a question of this kind, or that policy
	// forbids asking it. A tool that returns it makes the host name the capability that is missing.
	ErrUnsupported = errors.New("the client cannot answer this kind of question")
	// ErrTimedOut says that no answer came in time, where the host is set to go on without one.
	ErrTimedOut = errors.New("no answer came in time")
)

// A QuestionError says what is wrong with a question.
type QuestionError struct {
	Reason string
}

func (e *QuestionError) Error() string {
	return "the question is malformed: " + e.Reason
}

// A ProtocolError ends a call as a JSON-RPC error, which the model may never see. Any other error is a
// result that the model reads.
type ProtocolError struct {
	// Code lies outside -32768 to -32000, or is CodeInvalidParams or CodeInternal.
	Code    int32
	Message string
	// Data may hold any JSON, or nothing.
	Data json.RawMessage
}

// JSON-RPC's codes that a ProtocolError may have.
const (
	CodeInvalidParams int32 = -32602
	CodeInternal      int32 = -32603
)

func (e *ProtocolError) Error() string {
	return e.Message
}

// A Failure is an error whose result is more than its text.
type Failure struct {
	Result Result
}

func (e *Failure) Error() string {
	for _, content := range e.Result.Content {
		if text, ok := content.(Text); ok {
			return string(text)
		}
	}
	return "the tool failed"
}

// How a call ends, as the interface numbers it.
type failureCase uint32

const (
	caseFailed failureCase = iota
	caseProtocol
	caseUnsupported
	caseCancelled
)

// caseOf is where an error belongs in the interface.
func caseOf(err error) (failureCase, *Result, *ProtocolError) {
	var protocol *ProtocolError
	var failure *Failure
	switch {
	case errors.Is(err, ErrCancelled):
		return caseCancelled, nil, nil
	case errors.Is(err, ErrUnsupported):
		return caseUnsupported, nil, nil
	case errors.As(err, &protocol):
		return caseProtocol, nil, protocol
	case errors.As(err, &failure):
		return caseFailed, &failure.Result, nil
	default:
		return caseFailed, &Result{Content: []Content{Text(err.Error())}}, nil
	}
}

// panicked is the error that a panic becomes.
func panicked(value any) error {
	if err, ok := value.(error); ok {
		// Not wrapped: a panic is a failure, whatever it holds.
		return errors.New(err.Error())
	}
	return errors.New(fmt.Sprint(value))
}

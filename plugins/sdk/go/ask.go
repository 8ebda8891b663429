package layby

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// Outcome is what became of a question.
type Outcome uint32

// The outcomes.
const (
	// Accepted: the caller gave an answer.
	Accepted Outcome = iota
	// Declined: the caller said no.
	Declined
	// Dismissed: the caller closed the question without saying yes or no.
	Dismissed
)

// An Answer is what the caller said to a question.
type Answer[T any] struct {
	Outcome Outcome
	// Value is the answer, where it was accepted.
	Value T
}

// Accepted is the answer that was given, if one was.
func (a Answer[T]) Accepted() (T, bool) {
	return a.Value, a.Outcome == Accepted
}

// Ask puts a form to the caller and waits for the answer, perhaps for days. The key, such as user_name,
// names the question to the client. The fields of T are the form's: strings, numbers, booleans and lists of
// strings with an enum; see [Tool] for the tags.
//
// Local variables are as they were when the answer comes, even where the call was unloaded meanwhile.
func Ask[T any](call *Call, key, message string) (Answer[T], error) {
	form := Form[T](key, message)
	err := call.Ask(form)
	return form.Answer, err
}

// A Question can be put by [Call.Ask]: what [Form], [URL], [Sampling] and [Roots] return.
type Question interface {
	request() (Request, error)
	take(Reply) error
}

// Ask puts several questions at once and waits until each is answered; the answers are then in the
// questions.
func (c *Call) Ask(questions ...Question) error {
	requests := make([]Request, len(questions))
	for i, question := range questions {
		var err error
		if requests[i], err = question.request(); err != nil {
			return err
		}
	}
	replies, err := c.host.RequestInput(requests)
	if err != nil {
		return err
	}
	if len(replies) != len(requests) {
		return &QuestionError{fmt.Sprintf("%d answers came to %d questions", len(replies), len(requests))}
	}
	for i, question := range questions {
		if err := question.take(replies[i]); err != nil {
			return err
		}
	}
	return nil
}

// Asked is a question whose answer is a T, once [Call.Ask] has returned.
type Asked[T any] struct {
	Answer Answer[T]

	made   Request
	schema *schema
	err    error
}

// Form asks for the fields of T; see [Ask].
func Form[T any](key, message string) *Asked[T] {
	schema, err := formSchema(reflect.TypeFor[T]())
	if err != nil {
		err = &QuestionError{err.Error()}
	}
	return &Asked[T]{made: Request{Key: key, Kind: KindForm, Message: message}, schema: schema, err: err}
}

// Choices gives a form's field the texts to choose from, where they are known only now. Where they are known
// to the author, the tag `enum` does it.
func (a *Asked[T]) Choices(field string, values ...string) *Asked[T] {
	if a.err != nil {
		return a
	}
	if a.schema == nil || a.schema.property(field) == nil {
		a.err = &QuestionError{fmt.Sprintf("it has no field %q to choose from", field)}
		return a
	}
	a.schema.property(field).choices(values)
	return a
}

// URL asks the caller to open a page. Accepting means agreeing to open it, no more.
func URL(key, message, url string) *Asked[struct{}] {
	return &Asked[struct{}]{made: Request{Key: key, Kind: KindURL, Message: message, URL: url}}
}

// Sampling asks the client's model: params are those of MCP's sampling/createMessage, as anything that encodes
// to them, and the answer is its result object.
func Sampling(key string, params any) *Asked[json.RawMessage] {
	encoded, err := json.Marshal(params)
	if err != nil {
		err = &QuestionError{err.Error()}
	}
	return &Asked[json.RawMessage]{made: Request{Key: key, Kind: KindSampling, JSON: encoded}, err: err}
}

// RootList is the result of MCP's roots/list.
type RootList struct {
	Roots []Root `json:"roots"`
}

// A Root is a place that the client works in.
type Root struct {
	URI  string `json:"uri"`
	Name string `json:"name,omitempty"`
}

// Roots asks the client for its roots.
func Roots(key string) *Asked[RootList] {
	return &Asked[RootList]{made: Request{Key: key, Kind: KindRoots}}
}

func (a *Asked[T]) request() (Request, error) {
	if a.err == nil && a.schema != nil {
		a.made.JSON = a.schema.encode()
	}
	return a.made, a.err
}

func (a *Asked[T]) take(reply Reply) error {
	a.Answer = Answer[T]{Outcome: reply.Outcome}
	if reply.Outcome != Accepted || a.made.Kind == KindURL {
		return nil
	}
	if a.made.Kind == KindForm {
		setDefaults(reflect.ValueOf(&a.Answer.Value).Elem())
	}
	if err := readJSON(reply.JSON, &a.Answer.Value); err != nil {
		return fmt.Errorf("the answer to %q does not fit: %w", a.made.Key, err)
	}
	return nil
}

// A Request is a question as the host sees it.
type Request struct {
	Key  string
	Kind Kind
	// Message is there for a form and a URL.
	Message string
	URL     string
	// JSON is a form's schema, or the parameters of sampling.
	JSON json.RawMessage
}

// A Reply is an answer as the host gives it.
type Reply struct {
	Outcome Outcome
	// JSON is there where the question was accepted: a form's content, or MCP's result object.
	JSON json.RawMessage
}

package layby

import (
	"encoding/json"
	jsonv2 "encoding/json/v2"
	"fmt"
	"reflect"
)

// A Result is what a call gives, where text or one structured value is not enough.
type Result struct {
	Content []Content
	// StructuredContent is a JSON object that fits the tool's output schema, or nothing.
	StructuredContent json.RawMessage
	// Meta is the result's `_meta`, one JSON object, or nothing.
	Meta json.RawMessage
}

// Content is a part of a result: [Text], [Image], [Audio], [ResourceLink], [TextResource], [BlobResource] or [Other].
type Content interface {
	content()
}

type (
	// Text for the model.
	Text string

	// Image is a picture.
	Image struct {
		Data     []byte
		MimeType string
	}

	// Audio is a sound.
	Audio struct {
		Data     []byte
		MimeType string
	}

	// ResourceLink points to a resource. What is empty is left out; URI and Name must be there.
	ResourceLink struct {
		URI, Name, Title, Description, MimeType string
	}

	// TextResource is a resource with its text.
	TextResource struct {
		URI, MimeType, Text string
	}

	// BlobResource is a resource with its bytes.
	BlobResource struct {
		URI, MimeType string
		Blob          []byte
	}

	// Other is any content block of MCP as JSON, for what the other types cannot say.
	Other json.RawMessage
)

func (Text) content()         {}
func (Image) content()        {}
func (Audio) content()        {}
func (ResourceLink) content() {}
func (TextResource) content() {}
func (BlobResource) content() {}
func (Other) content()        {}

// Structured is a structured result with words of its own beside it. A tool that returns a plain struct
// has its JSON as the text.
type Structured[T any] struct {
	// Text says the result in words.
	Text string
	// Value is a struct, or a map with strings as keys.
	Value T
}

// structured is how a result of any T is told from others.
type structured interface {
	parts() (text string, value any)
}

func (s Structured[T]) parts() (string, any) {
	return s.Text, s.Value
}

// outputType is the type of a tool's structured content, or nothing where its result has none.
func outputType[R any]() (reflect.Type, error) {
	t := reflect.TypeFor[R]()
	if s, ok := any(*new(R)).(structured); ok {
		_, value := s.parts()
		if value == nil {
			return nil, fmt.Errorf("the value of %v must have a type", t)
		}
		t = reflect.TypeOf(value)
		if !isObject(t) {
			return nil, fmt.Errorf("structured content is an object, and %v is none", t)
		}
		return t, nil
	}
	switch t {
	case reflect.TypeFor[Result](), reflect.TypeFor[*Result](), reflect.TypeFor[[]Content](), reflect.TypeFor[struct{}]():
		return nil, nil
	}
	if t.Implements(reflect.TypeFor[Content]()) {
		return nil, nil
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return nil, nil
	}
	if isObject(t) {
		return t, nil
	}
	return nil, fmt.Errorf("%v is no result: return a struct, a map with strings as keys, text, a number, "+
		"a layby.Result or []layby.Content", t)
}

func isObject(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct || t.Kind() == reflect.Map && t.Key().Kind() == reflect.String
}

// resultOf is a tool's result as the host takes it.
func resultOf(value any) (*Result, error) {
	switch value := value.(type) {
	case *Result:
		if value == nil {
			return &Result{}, nil
		}
		return value, nil
	case Result:
		return &value, nil
	case []Content:
		return &Result{Content: value}, nil
	case Content:
		return &Result{Content: []Content{value}}, nil
	case struct{}:
		return &Result{}, nil
	case structured:
		text, inner := value.parts()
		encoded, err := encode(inner)
		return &Result{Content: []Content{Text(text)}, StructuredContent: encoded}, err
	}
	if kind := reflect.TypeOf(value).Kind(); kind == reflect.Struct || kind == reflect.Map || kind == reflect.Pointer {
		encoded, err := encode(value)
		return &Result{Content: []Content{Text(encoded)}, StructuredContent: encoded}, err
	}
	return &Result{Content: []Content{Text(fmt.Sprint(value))}}, nil
}

// encode writes structured content as encoding/json does, but with an empty list for a nil slice and an
// empty object for a nil map: a schema has no null for them.
func encode(value any) (json.RawMessage, error) {
	options := jsonv2.JoinOptions(json.DefaultOptionsV1(), jsonv2.FormatNilSliceAsNull(false), jsonv2.FormatNilMapAsNull(false))
	encoded, err := jsonv2.Marshal(value, options)
	if err != nil {
		return nil, fmt.Errorf("the result is no JSON: %w", err)
	}
	return encoded, nil
}

package layby

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// schema is a JSON Schema, or a part of one. What is empty is left out.
type schema struct {
	kind        string
	nullable    bool
	title       string
	description string
	format      string
	encoding    string
	enum        []any
	def         json.RawMessage
	// Of numbers, and of the size of texts and lists.
	min, max *float64
	items    *schema
	// Of objects. Others are what unlisted members may be; nil stands for anything.
	properties []property
	required   []string
	others     *schema
	closed     bool
}

type property struct {
	name   string
	schema *schema
}

func (s *schema) property(name string) *schema {
	for _, property := range s.properties {
		if property.name == name {
			return property.schema
		}
	}
	return nil
}

// choices lets a text, or each text of a list, be one of these.
func (s *schema) choices(values []string) {
	if s.kind == "array" && s.items != nil {
		s = s.items
	}
	s.enum = make([]any, len(values))
	for i, value := range values {
		s.enum[i] = value
	}
}

// Where a schema is for.
type use struct {
	// of: arguments and forms are given to us, and may leave things out; results are not.
	given bool
	// closed: no other members than those of a struct.
	closed bool
}

func argumentsSchema(t reflect.Type) (*schema, error) {
	made, err := schemaOf(t, use{given: true, closed: true}, nil)
	if err != nil {
		return nil, err
	}
	if made.kind == "" {
		made.kind = "object"
	}
	if made.kind != "object" || made.nullable {
		return nil, fmt.Errorf("arguments are a struct, and %v is none", t)
	}
	return made, nil
}

func outputSchema(t reflect.Type) (*schema, error) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return schemaOf(t, use{}, nil)
}

// formSchema is the flat schema that MCP allows in a form.
func formSchema(t reflect.Type) (*schema, error) {
	made, err := schemaOf(t, use{given: true}, nil)
	if err != nil {
		return nil, err
	}
	if made.kind != "object" || len(made.properties) == 0 {
		return nil, fmt.Errorf("a form is a struct with fields, and %v is none", t)
	}
	for _, p := range made.properties {
		flat := p.schema.kind == "string" || p.schema.kind == "number" || p.schema.kind == "integer" ||
			p.schema.kind == "boolean" || p.schema.kind == "array" && p.schema.items.kind == "string"
		if !flat || p.schema.encoding != "" {
			return nil, fmt.Errorf("field %q: a form has only texts, numbers, booleans and lists of texts", p.name)
		}
	}
	return made, nil
}

var (
	typeTime          = reflect.TypeFor[time.Time]()
	typeRaw           = reflect.TypeFor[json.RawMessage]()
	typeNumber        = reflect.TypeFor[json.Number]()
	typeTextMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	typeMarshaler     = reflect.TypeFor[json.Marshaler]()
)

// schemaOf is the schema of what encoding/json makes of a type; outer are the structs around it.
func schemaOf(t reflect.Type, use use, outer []reflect.Type) (*schema, error) {
	switch {
	case t == typeTime:
		return &schema{kind: "string", format: "date-time"}, nil
	case t == typeNumber:
		return &schema{kind: "number"}, nil
	case t == typeRaw || t.Kind() == reflect.Interface:
		return &schema{}, nil
	case t.Implements(typeMarshaler) || reflect.PointerTo(t).Implements(typeMarshaler):
		// It may be written as anything.
		return &schema{}, nil
	case t.Kind() != reflect.Pointer && (t.Implements(typeTextMarshaler) || reflect.PointerTo(t).Implements(typeTextMarshaler)):
		return &schema{kind: "string"}, nil
	}
	switch t.Kind() {
	case reflect.Bool:
		return &schema{kind: "boolean"}, nil
	case reflect.String:
		return &schema{kind: "string"}, nil
	case reflect.Float32, reflect.Float64:
		return &schema{kind: "number"}, nil
	case reflect.Int, reflect.Int64:
		return &schema{kind: "integer"}, nil
	case reflect.Int8, reflect.Int16, reflect.Int32:
		most := math.Ldexp(1, t.Bits()-1)
		return &schema{kind: "integer", min: number(-most), max: number(most - 1)}, nil
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return &schema{kind: "integer", min: number(0)}, nil
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return &schema{kind: "integer", min: number(0), max: number(math.Ldexp(1, t.Bits()) - 1)}, nil
	case reflect.Pointer:
		made, err := schemaOf(t.Elem(), use, outer)
		if err == nil && !use.given && made.kind != "" {
			made.nullable = true
		}
		return made, err
	case reflect.Slice, reflect.Array:
		return listSchema(t, use, outer)
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return nil, fmt.Errorf("%v: a map's keys are strings", t)
		}
		values, err := schemaOf(t.Elem(), use, outer)
		return &schema{kind: "object", others: values}, err
	case reflect.Struct:
		return structSchema(t, use, outer)
	}
	return nil, fmt.Errorf("%v is not to be had in JSON", t)
}

func listSchema(t reflect.Type, use use, outer []reflect.Type) (*schema, error) {
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
		return &schema{kind: "string", encoding: "base64"}, nil
	}
	items, err := schemaOf(t.Elem(), use, outer)
	made := &schema{kind: "array", items: items}
	if t.Kind() == reflect.Array {
		made.min, made.max = number(float64(t.Len())), number(float64(t.Len()))
	}
	return made, err
}

func structSchema(t reflect.Type, use use, outer []reflect.Type) (*schema, error) {
	for _, around := range outer {
		if around == t {
			return nil, fmt.Errorf("%v is within itself, which this kit has no schema for: use json.RawMessage there", t)
		}
	}
	made := &schema{kind: "object", closed: use.closed}
	err := made.addFields(t, use, append(outer, t))
	return made, err
}

func (s *schema) addFields(t reflect.Type, use use, outer []reflect.Type) error {
	for i := range t.NumField() {
		field := t.Field(i)
		name, flags, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" {
			embedded := field.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			if embedded.Kind() == reflect.Struct {
				if err := s.addFields(embedded, use, append(outer, embedded)); err != nil {
					return err
				}
				continue
			}
		}
		if !field.IsExported() || name == "-" && flags == "" {
			continue
		}
		if name == "" {
			name = field.Name
		}
		made, err := fieldSchema(field, flags, use, outer)
		if err != nil {
			return fmt.Errorf("field %s: %w", field.Name, err)
		}
		s.properties = append(s.properties, property{name, made})
		maybe := hasFlag(flags, "omitempty") || hasFlag(flags, "omitzero")
		if use.given {
			maybe = maybe || field.Type.Kind() == reflect.Pointer || made.def != nil
		}
		if !maybe {
			s.required = append(s.required, name)
		}
	}
	return nil
}

func hasFlag(flags, flag string) bool {
	for one := range strings.SplitSeq(flags, ",") {
		if one == flag {
			return true
		}
	}
	return false
}

func fieldSchema(field reflect.StructField, flags string, use use, outer []reflect.Type) (*schema, error) {
	made, err := schemaOf(field.Type, use, outer)
	if err != nil {
		return nil, err
	}
	if hasFlag(flags, "string") {
		made = &schema{kind: "string"}
	}
	if hasFlag(flags, "omitempty") || hasFlag(flags, "omitzero") {
		// What is nil is left out.
		made.nullable = false
	}
	made.title, made.description = field.Tag.Get("title"), field.Tag.Get("desc")
	if format := field.Tag.Get("format"); format != "" {
		made.format = format
	}
	if values, ok := field.Tag.Lookup("enum"); ok {
		if err := made.setEnum(values); err != nil {
			return nil, err
		}
	}
	for tag, to := range map[string]**float64{"min": &made.min, "max": &made.max} {
		if text, ok := field.Tag.Lookup(tag); ok {
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, fmt.Errorf("its tag %s is no number: %q", tag, text)
			}
			*to = &value
		}
	}
	if text, ok := field.Tag.Lookup("default"); ok {
		if made.def, err = defaultOf(field.Type, text); err != nil {
			return nil, err
		}
	}
	return made, nil
}

func (s *schema) setEnum(values string) error {
	on := s
	if s.kind == "array" {
		on = s.items
	}
	for value := range strings.SplitSeq(values, ",") {
		switch on.kind {
		case "string":
			on.enum = append(on.enum, value)
		case "integer":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return fmt.Errorf("its tag enum has %q, which is no whole number", value)
			}
			on.enum = append(on.enum, n)
		default:
			return fmt.Errorf("its tag enum is for texts and whole numbers")
		}
	}
	return nil
}

// defaultOf is a field's default value as JSON, checked against its type.
func defaultOf(t reflect.Type, text string) (json.RawMessage, error) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	encoded := json.RawMessage(text)
	if t.Kind() == reflect.String {
		encoded = quoted(text)
	}
	if err := json.Unmarshal(encoded, reflect.New(t).Interface()); err != nil {
		return nil, fmt.Errorf("its tag default does not fit %v: %q", t, text)
	}
	return encoded, nil
}

// setDefaults gives the fields of a struct, and of those within it, the values of their tags.
func setDefaults(value reflect.Value) {
	if value.Kind() != reflect.Struct || value.Type() == typeTime {
		return
	}
	for i := range value.NumField() {
		field := value.Type().Field(i)
		if !field.IsExported() {
			continue
		}
		if text, ok := field.Tag.Lookup("default"); ok {
			// The schema was made of it, so it fits.
			if encoded, err := defaultOf(field.Type, text); err == nil {
				_ = json.Unmarshal(encoded, value.Field(i).Addr().Interface())
			}
			continue
		}
		setDefaults(value.Field(i))
	}
}

func number(value float64) *float64 {
	return &value
}

func quoted(text string) json.RawMessage {
	encoded, _ := json.Marshal(text) // of a string: always possible
	return encoded
}

// encode writes the schema, with its members in a fixed order.
func (s *schema) encode() []byte {
	var out bytes.Buffer
	s.write(&out)
	return out.Bytes()
}

func (s *schema) write(out *bytes.Buffer) {
	out.WriteByte('{')
	first := true
	member := func(name string, value any) {
		if !first {
			out.WriteByte(',')
		}
		first = false
		out.Write(quoted(name))
		out.WriteByte(':')
		if inner, ok := value.(*schema); ok {
			inner.write(out)
			return
		}
		encoded, _ := json.Marshal(value) // of texts, numbers and checked JSON: always possible
		out.Write(encoded)
	}
	s.writeScalars(member)
	if s.items != nil {
		member("items", s.items)
	}
	if s.kind == "object" {
		member("properties", properties(s.properties))
	}
	if len(s.required) > 0 {
		member("required", s.required)
	}
	if s.closed {
		member("additionalProperties", false)
	} else if s.others != nil {
		member("additionalProperties", s.others)
	}
	out.WriteByte('}')
}

func (s *schema) writeScalars(member func(string, any)) {
	if s.nullable {
		member("type", []string{s.kind, "null"})
	} else if s.kind != "" {
		member("type", s.kind)
	}
	for _, text := range [][2]string{
		{"title", s.title}, {"description", s.description}, {"format", s.format}, {"contentEncoding", s.encoding},
	} {
		if text[1] != "" {
			member(text[0], text[1])
		}
	}
	if len(s.enum) > 0 {
		member("enum", s.enum)
	}
	least, most := "minimum", "maximum"
	switch s.kind {
	case "string":
		least, most = "minLength", "maxLength"
	case "array":
		least, most = "minItems", "maxItems"
	}
	if s.min != nil {
		member(least, *s.min)
	}
	if s.max != nil {
		member(most, *s.max)
	}
	if s.def != nil {
		member("default", s.def)
	}
}

// properties are written in their order, which a Go map has none of.
type properties []property

// MarshalJSON writes them as one object.
func (p properties) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, property := range p {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(quoted(property.name))
		out.WriteByte(':')
		property.schema.write(&out)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

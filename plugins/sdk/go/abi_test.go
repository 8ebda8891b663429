package layby

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

// ram is a memory for tests, and reads values as the host does: by offsets that the canonical ABI gives,
// written down here once more and on their own.
type ram struct {
	bytes []byte
}

func newRAM() *ram {
	return &ram{make([]byte, 16)}
}

func (m *ram) text(text string) uint32 {
	at := uint32(len(m.bytes))
	m.bytes = append(m.bytes, text...)
	// The next one is aligned, and what lies between is no zero.
	for len(m.bytes)%4 != 0 {
		m.bytes = append(m.bytes, 0xaa)
	}
	return at
}

func (m *ram) words(words []uint32) uint32 {
	at := uint32(len(m.bytes))
	for _, word := range words {
		m.bytes = binary.LittleEndian.AppendUint32(m.bytes, word)
	}
	return at
}

func (m *ram) word(at uint32) uint32 {
	if at%4 != 0 {
		panic("not aligned")
	}
	return binary.LittleEndian.Uint32(m.bytes[at:])
}

func (m *ram) read(at, length uint32) string {
	return string(m.bytes[at : at+length])
}

func (m *ram) string(at uint32) string {
	return m.read(m.word(at), m.word(at+4))
}

func (m *ram) option(at uint32) string {
	if m.bytes[at] == 0 {
		return ""
	}
	return m.string(at + 4)
}

func (m *ram) content(at uint32) Content {
	payload := at + 4
	switch m.bytes[at] {
	case 0:
		return Text(m.string(payload))
	case 1:
		return Image{[]byte(m.string(payload)), m.string(payload + 8)}
	case 2:
		return Audio{[]byte(m.string(payload)), m.string(payload + 8)}
	case 3:
		return ResourceLink{
			m.string(payload), m.string(payload + 8), m.option(payload + 16), m.option(payload + 28), m.option(payload + 40),
		}
	case 4:
		uri, mimeType, contents := m.string(payload), m.option(payload+8), m.string(payload+24)
		if m.bytes[payload+20] == 0 {
			return TextResource{uri, mimeType, contents}
		}
		return BlobResource{uri, mimeType, []byte(contents)}
	case 5:
		return Other(m.string(payload))
	}
	panic("no such content")
}

func (m *ram) result(at uint32) Result {
	var result Result
	for i := range m.word(at + 4) {
		result.Content = append(result.Content, m.content(m.word(at)+i*56))
	}
	if structured := m.option(at + 8); structured != "" {
		result.StructuredContent = []byte(structured)
	}
	if meta := m.option(at + 20); meta != "" {
		result.Meta = []byte(meta)
	}
	return result
}

func TestResultsCross(t *testing.T) {
	contents := []Content{
		Text("plain"), Text(""), Image{[]byte{0xff, 0}, "image/png"}, Audio{[]byte("x"), "audio/wav"},
		ResourceLink{URI: "a:b", Name: "n", Description: "d"},
		ResourceLink{"a:b", "n", "t", "d", "m"},
		TextResource{"u:r", "text/plain", "words"}, BlobResource{"u:r", "", []byte{0xfe}}, Other(`{"type":"x"}`),
	}
	for range 200 {
		result := Result{}
		for range rand.IntN(6) {
			result.Content = append(result.Content, contents[rand.IntN(len(contents))])
		}
		if rand.IntN(2) == 0 {
			result.StructuredContent = []byte(`{"a":1}`)
		}
		if rand.IntN(2) == 0 {
			result.Meta = []byte(`{"b":2}`)
		}
		memory := newRAM()
		at := writeOutcome(memory, &result, nil)
		if memory.bytes[at] != 0 {
			t.Fatal("a result became an error")
		}
		if got := memory.result(at + 4); !reflect.DeepEqual(got, result) {
			t.Fatalf("%+v became %+v", result, got)
		}
	}
}

func TestErrorsCross(t *testing.T) {
	number := func(err error) (*ram, uint32, byte) {
		memory := newRAM()
		at := writeOutcome(memory, nil, err)
		if memory.bytes[at] != 1 {
			t.Fatal("an error became a result")
		}
		return memory, at + 8, memory.bytes[at+4]
	}
	memory, at, which := number(errors.New("no luck"))
	if got := memory.result(at); which != 0 || !reflect.DeepEqual(got.Content, []Content{Text("no luck")}) {
		t.Error(which, got)
	}
	memory, at, which = number(fmt.Errorf("wrapped: %w", &Failure{Result{Content: []Content{Text("told")}, Meta: []byte("{}")}}))
	if got := memory.result(at); which != 0 || string(got.Meta) != "{}" {
		t.Error(which, got)
	}
	memory, at, which = number(fmt.Errorf("wrapped: %w", &ProtocolError{Code: -32602, Message: "bad", Data: []byte("[1]")}))
	if code := int32(memory.word(at)); which != 1 || code != -32602 || memory.string(at+4) != "bad" || memory.option(at+12) != "[1]" {
		t.Error(which, code)
	}
	if _, _, which = number(fmt.Errorf("wrapped: %w", ErrUnsupported)); which != 2 {
		t.Error(which)
	}
	if _, _, which = number(fmt.Errorf("wrapped: %w", ErrCancelled)); which != 3 {
		t.Error(which)
	}
	// The host takes nothing but UTF-8.
	memory, at, _ = number(errors.New("a\xffb"))
	if got := memory.result(at).Content[0]; got != Text("a\uFFFDb") {
		t.Error(got)
	}
}

func TestToolsCross(t *testing.T) {
	memory := newRAM()
	at := writeTools(memory, []*tool{
		{name: "one", description: "d", inputSchema: []byte("{}")},
		{
			name: "two", title: "T", description: "e", inputSchema: []byte("[]"), outputSchema: []byte("{1}"),
			hints: hints{yes, no, untold, yes}, extra: []byte("{2}"),
		},
	})
	if memory.word(at+4) != 2 {
		t.Fatal(memory.word(at + 4))
	}
	first := memory.word(at)
	second := first + 68
	for at, want := range map[uint32]string{first: "one", first + 20: "d", first + 28: "{}", second: "two", second + 20: "e"} {
		if got := memory.string(at); got != want {
			t.Error(got, want)
		}
	}
	for at, want := range map[uint32]string{first + 8: "", first + 56: "", second + 8: "T", second + 36: "{1}", second + 56: "{2}"} {
		if got := memory.option(at); got != want {
			t.Error(got, want)
		}
	}
	if got := memory.bytes[second+48 : second+56]; !reflect.DeepEqual(got, []byte{1, 1, 1, 0, 0, 0, 1, 1}) {
		t.Error(got)
	}
}

func TestRequestsCross(t *testing.T) {
	memory := newRAM()
	at, count := writeRequests(memory, []Request{
		{Key: "f", Kind: KindForm, Message: "m", JSON: []byte("{}")},
		{Key: "u", Kind: KindURL, Message: "m", URL: "https://x"},
		{Key: "s", Kind: KindSampling, JSON: []byte("[1]")},
		{Key: "r", Kind: KindRoots},
	})
	if count != 4 {
		t.Fatal(count)
	}
	for i, want := range [][3]string{{"f", "m", "{}"}, {"u", "m", "https://x"}, {"s", "[1]", ""}, {"r", "", ""}} {
		at := at + uint32(i)*28
		got := [3]string{memory.string(at), memory.string(at + 12), memory.string(at + 20)}
		if got != want || memory.bytes[at+8] != byte(i) {
			t.Errorf("%q and not %q", got, want)
		}
	}
}

func TestRepliesCross(t *testing.T) {
	memory := newRAM()
	json := memory.text(`{"a":1}`)
	list := memory.words([]uint32{0xaaaaaa00, json, 7, 0xaaaaaa01, 0, 0, 0xaaaaaa02, 0, 0})
	replies, err := readReplies(memory, memory.words([]uint32{0xaaaaaa00, list, 3, 0}))
	want := []Reply{{Accepted, []byte(`{"a":1}`)}, {Outcome: Declined}, {Outcome: Dismissed}}
	if err != nil || !reflect.DeepEqual(replies, want) {
		t.Error(replies, err)
	}
	for number, want := range []error{ErrUnsupported, ErrTimedOut, &QuestionError{`{"a":1}`}, ErrCancelled} {
		_, err := readReplies(memory, memory.words([]uint32{0xaaaaaa01, 0xaaaaaa00 | uint32(number), json, 7}))
		if !reflect.DeepEqual(err, want) {
			t.Error(number, err)
		}
	}
}

func TestConfigurationCrosses(t *testing.T) {
	memory := newRAM()
	blue := memory.text("blue")
	for _, value := range []struct {
		words []uint32
		text  string
		ok    bool
	}{
		{[]uint32{0xaaaaaa00, 0xaaaaaa01, blue, 4}, "blue", true},
		{[]uint32{0xaaaaaa00, 0xaaaaaa00, 0, 0}, "", false},
		{[]uint32{0xaaaaaa01, 0xaaaaaa01, blue, 4}, "", false},
	} {
		if text, ok := readValue(memory, memory.words(value.words)); text != value.text || ok != value.ok {
			t.Error(text, ok)
		}
	}
}

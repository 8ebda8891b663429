package layby

import "strings"

// The interface's values as they lie in memory, by the canonical ABI of components. All that crosses the
// boundary here is aligned to 4 bytes but for the hints, which are packed by hand.

// A memory is where values lie: the sandbox's own, or a stand-in in tests.
type memory interface {
	// text keeps a text where it is, and tells its address.
	text(text string) uint32
	// words keeps words where they are, and tells their address.
	words(words []uint32) uint32
	// word reads the word at an address, which is one of 4 bytes.
	word(at uint32) uint32
	// read returns the text at an address.
	read(at, length uint32) string
}

// writer lines up the words of a value; texts and lists go elsewhere in memory.
type writer struct {
	memory memory
	out    []uint32
}

func (w *writer) word(word uint32) {
	w.out = append(w.out, word)
}

// text writes a text. The host takes only UTF-8, and ends an instance that gives it anything else.
func (w *writer) text(text string) {
	w.bytes(strings.ToValidUTF8(text, "\uFFFD"))
}

func (w *writer) bytes(bytes string) {
	w.out = append(w.out, w.memory.text(bytes), uint32(len(bytes)))
}

// maybe writes an option of a text: none where it is empty.
func (w *writer) maybe(text string) {
	if text == "" {
		w.out = append(w.out, 0, 0, 0)
		return
	}
	w.word(1)
	w.text(text)
}

// list writes a list of count elements.
func (w *writer) list(count int, element func(to *writer, i int)) {
	elements := &writer{memory: w.memory}
	for i := range count {
		element(elements, i)
	}
	w.out = append(w.out, w.memory.words(elements.out), uint32(count))
}

// variant writes a variant of size words in all, whatever the case has.
func (w *writer) variant(number uint32, size int, payload func()) {
	end := len(w.out) + size
	w.word(number)
	if payload != nil {
		payload()
	}
	for len(w.out) < end {
		w.word(0)
	}
}

// Sizes in words.
const (
	sizeContents    = 3
	sizeContent     = 14
	sizeToolError   = 9
	sizeToolOutcome = 10
	sizeQuestion    = 5
	sizeAnswer      = 3
)

// writeTools writes the result of list-tools and tells its address.
func writeTools(memory memory, tools []*tool) uint32 {
	w := &writer{memory: memory}
	w.list(len(tools), func(to *writer, i int) { to.tool(tools[i]) })
	return memory.words(w.out)
}

func (w *writer) tool(tool *tool) {
	w.text(tool.name)
	w.maybe(tool.title)
	w.text(tool.description)
	w.text(string(tool.inputSchema))
	w.maybe(string(tool.outputSchema))
	w.word(tool.hints.readOnly.bits() | tool.hints.destructive.bits()<<16)
	w.word(tool.hints.idempotent.bits() | tool.hints.openWorld.bits()<<16)
	w.maybe(string(tool.extra))
}

// bits is an option of a boolean: two bytes.
func (h hint) bits() uint32 {
	switch h {
	case no:
		return 1
	case yes:
		return 1 | 1<<8
	default:
		return 0
	}
}

// writeOutcome writes the result of call-tool and tells its address.
func writeOutcome(memory memory, result *Result, err error) uint32 {
	w := &writer{memory: memory}
	if err == nil {
		w.variant(0, sizeToolOutcome, func() { w.result(result) })
		return memory.words(w.out)
	}
	number, failed, protocol := caseOf(err)
	w.variant(1, sizeToolOutcome, func() {
		w.variant(uint32(number), sizeToolError, func() {
			if failed != nil {
				w.result(failed)
			}
			if protocol != nil {
				w.word(uint32(protocol.Code))
				w.text(protocol.Message)
				w.maybe(string(protocol.Data))
			}
		})
	})
	return memory.words(w.out)
}

func (w *writer) result(result *Result) {
	w.list(len(result.Content), func(to *writer, i int) { to.content(result.Content[i]) })
	w.maybe(string(result.StructuredContent))
	w.maybe(string(result.Meta))
}

func (w *writer) content(content Content) {
	media := func(data []byte, mimeType string) func() {
		return func() {
			w.bytes(string(data))
			w.text(mimeType)
		}
	}
	embedded := func(uri, mimeType string, contents func()) func() {
		return func() {
			w.text(uri)
			w.maybe(mimeType)
			contents()
		}
	}
	number, payload := uint32(0), func() { w.text("") }
	switch content := content.(type) {
	case Text:
		payload = func() { w.text(string(content)) }
	case Image:
		number, payload = 1, media(content.Data, content.MimeType)
	case Audio:
		number, payload = 2, media(content.Data, content.MimeType)
	case ResourceLink:
		number, payload = 3, func() {
			w.text(content.URI)
			w.text(content.Name)
			w.maybe(content.Title)
			w.maybe(content.Description)
			w.maybe(content.MimeType)
		}
	case TextResource:
		number, payload = 4, embedded(content.URI, content.MimeType, func() {
			w.variant(0, sizeContents, func() { w.text(content.Text) })
		})
	case BlobResource:
		number, payload = 4, embedded(content.URI, content.MimeType, func() {
			w.variant(1, sizeContents, func() { w.bytes(string(content.Blob)) })
		})
	case Other:
		number, payload = 5, func() { w.text(string(content)) }
	}
	w.variant(number, sizeContent, payload)
}

// writeRequests writes the argument of request-input: where the list is, and of how many.
func writeRequests(memory memory, requests []Request) (at, count uint32) {
	w := &writer{memory: memory}
	w.list(len(requests), func(to *writer, i int) {
		request := &requests[i]
		to.text(request.Key)
		to.variant(uint32(request.Kind), sizeQuestion, func() {
			switch request.Kind {
			case KindForm:
				to.text(request.Message)
				to.text(string(request.JSON))
			case KindURL:
				to.text(request.Message)
				to.text(request.URL)
			case KindSampling:
				to.text(string(request.JSON))
			}
		})
	})
	return w.out[0], w.out[1]
}

// readReplies reads what request-input has left at an address.
func readReplies(memory memory, at uint32) ([]Reply, error) {
	text := func(at uint32) string { return memory.read(memory.word(at), memory.word(at+4)) }
	if isError := memory.word(at)&0xff != 0; isError {
		switch memory.word(at+4) & 0xff {
		case 0:
			return nil, ErrUnsupported
		case 1:
			return nil, ErrTimedOut
		case 2:
			return nil, &QuestionError{text(at + 8)}
		default:
			return nil, ErrCancelled
		}
	}
	first, count := memory.word(at+4), memory.word(at+8)
	replies := make([]Reply, count)
	for i := range replies {
		at := first + uint32(i)*sizeAnswer*4
		replies[i].Outcome = Outcome(memory.word(at) & 0xff)
		if replies[i].Outcome == Accepted {
			replies[i].JSON = []byte(text(at + 4))
		}
	}
	return replies, nil
}

// readValue reads what the configuration's get has left at an address.
func readValue(memory memory, at uint32) (string, bool) {
	isError, isSome := memory.word(at)&0xff != 0, memory.word(at+4)&0xff != 0
	if isError || !isSome {
		return "", false
	}
	return memory.read(memory.word(at+8), memory.word(at+12)), true
}

package layby_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"testing"

	"layby.dev/layby"
	"layby.dev/layby/laybytest"
)

type none = struct{}

type point struct {
	X int      `json:"x"`
	L []string `json:"l"`
}

// gives makes a tool that returns a value, and calls it.
func gives[R any](t *testing.T, value R) *layby.Result {
	t.Helper()
	name := strings.ReplaceAll(t.Name()+fmt.Sprint(len(t.Name()), reflect.TypeFor[R]()), "/", ".")
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '.' {
			return r
		}
		return '_'
	}, name)
	layby.Tool(name, "d", func(*layby.Call, none) (R, error) { return value, nil })
	result, err := laybytest.New().CallTool(name, `{}`)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestResults(t *testing.T) {
	text := func(text string) *layby.Result { return &layby.Result{Content: []layby.Content{layby.Text(text)}} }
	structured := func(words, object string) *layby.Result {
		return &layby.Result{Content: []layby.Content{layby.Text(words)}, StructuredContent: json.RawMessage(object)}
	}
	for _, c := range []struct{ got, want *layby.Result }{
		{gives(t, "words"), text("words")},
		{gives(t, 4.5), text("4.5")},
		{gives(t, true), text("true")},
		{gives(t, none{}), &layby.Result{}},
		{gives(t, point{X: 1}), structured(`{"x":1,"l":[]}`, `{"x":1,"l":[]}`)},
		{gives(t, &point{L: []string{"<"}}), structured(`{"x":0,"l":["\u003c"]}`, `{"x":0,"l":["\u003c"]}`)},
		{gives(t, map[string]int{"b": 2, "a": 1}), structured(`{"a":1,"b":2}`, `{"a":1,"b":2}`)},
		{gives(t, layby.Structured[point]{Text: "one", Value: point{X: 1}}), structured("one", `{"x":1,"l":[]}`)},
		{gives(t, layby.Text("t")), text("t")},
		{gives(t, []layby.Content{layby.Text("a"), layby.Other("{}")}), &layby.Result{Content: []layby.Content{layby.Text("a"), layby.Other("{}")}}},
		{gives(t, *structured("s", "{}")), structured("s", "{}")},
		{gives(t, structured("p", "{}")), structured("p", "{}")},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%+v and not %+v", c.got, c.want)
		}
	}
}

func TestToolsThatCannotBe(t *testing.T) {
	body := func(*layby.Call, none) (string, error) { return "", nil }
	layby.Tool("taken", "d", body)
	for want, make := range map[string]func(){
		"another one":  func() { layby.Tool("taken", "d", body) },
		"0 characters": func() { layby.Tool("", "d", body) },
		"only letters": func() { layby.Tool("no spaces", "d", body) },
		"no result":    func() { layby.Tool("list", "d", func(*layby.Call, none) ([]int, error) { return nil, nil }) },
		"are a struct": func() { layby.Tool("text", "d", func(*layby.Call, string) (string, error) { return "", nil }) },
	} {
		func() {
			defer func() {
				if message := fmt.Sprint(recover()); !strings.Contains(message, want) {
					t.Errorf("%s, and not %q", message, want)
				}
			}()
			make()
		}()
	}
}

// standardError is what a function writes there.
func standardError(t *testing.T, body func()) string {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = write
	body()
	os.Stderr = before
	write.Close()
	written, err := io.ReadAll(read)
	if err != nil {
		t.Fatal(err)
	}
	return string(written)
}

func TestAPanicIsAnErrorAndItsStackStaysHere(t *testing.T) {
	layby.Tool("panics", "d", func(*layby.Call, none) (string, error) {
		panic(fmt.Errorf("broken: %w", layby.ErrCancelled))
	})
	layby.Tool("indexes", "d", func(*layby.Call, none) (string, error) {
		return []string{}[len(t.Name())-len(t.Name())], nil
	})
	var err error
	logged := standardError(t, func() { _, err = laybytest.New().CallTool("panics", `{}`) })
	if err == nil || err.Error() != "broken: the call was cancelled" || errors.Is(err, layby.ErrCancelled) {
		t.Error(err)
	}
	if !strings.Contains(logged, "tool_test.go") || !strings.Contains(logged, "broken") {
		t.Error(logged)
	}
	standardError(t, func() { _, err = laybytest.New().CallTool("indexes", `{}`) })
	if err == nil || !strings.Contains(err.Error(), "index out of range") {
		t.Error(err)
	}
}

func TestUnknownToolsAndArguments(t *testing.T) {
	var protocol *layby.ProtocolError
	if _, err := laybytest.New().CallTool("no_such", `{}`); !errors.As(err, &protocol) || protocol.Code != layby.CodeInvalidParams {
		t.Error(err)
	}
	layby.Tool("takes", "d", func(_ *layby.Call, args point) (int, error) { return args.X, nil })
	if _, err := laybytest.New().CallTool("takes", `{"x":"y"}`); err == nil || !strings.Contains(err.Error(), "do not fit") {
		t.Error(err)
	}
}

type who struct {
	Name string `json:"name"`
	Age  int    `json:"age" default:"7"`
}

func TestQuestions(t *testing.T) {
	host := laybytest.New(
		laybytest.Accept(`{"name":"Ada"}`), laybytest.Decline(), laybytest.Accept(`{}`),
		laybytest.Accept(`{"role":"assistant"}`), laybytest.Accept(`{"roots":[{"uri":"file:///a"}]}`), laybytest.Dismiss(),
	)
	call := host.Call()
	answer, err := layby.Ask[who](call, "who", "Who?")
	if got, ok := answer.Accepted(); err != nil || !ok || got != (who{"Ada", 7}) {
		t.Error(got, ok, err)
	}
	form, url := layby.Form[who]("again", "Who?").Choices("name", "a", "b"), layby.URL("open", "Please", "https://x")
	sampling, roots := layby.Sampling("model", map[string]any{"maxTokens": 1}), layby.Roots("roots")
	last := layby.Form[who]("last", "Who?")
	if err := call.Ask(form, url, sampling, roots, last); err != nil {
		t.Fatal(err)
	}
	if form.Answer.Outcome != layby.Declined || url.Answer.Outcome != layby.Accepted || last.Answer.Outcome != layby.Dismissed {
		t.Error(form.Answer, url.Answer, last.Answer)
	}
	if string(sampling.Answer.Value) != `{"role":"assistant"}` || roots.Answer.Value.Roots[0].URI != "file:///a" {
		t.Error(sampling.Answer, roots.Answer)
	}
	asked := host.Asked()
	const schema = `{"type":"object","properties":{"name":{"type":"string","enum":["a","b"]},"age":{"type":"integer","default":7}},"required":["name"]}`
	if len(asked) != 6 || string(asked[1].JSON) != schema || string(asked[3].JSON) != `{"maxTokens":1}` {
		t.Errorf("%+v", asked)
	}
}

func TestQuestionsWithoutAnAnswer(t *testing.T) {
	call := laybytest.New().Call()
	if _, err := layby.Ask[who](call, "k", "m"); !errors.Is(err, layby.ErrUnsupported) {
		t.Error(err)
	}
	var malformed *layby.QuestionError
	if _, err := layby.Ask[struct{ P point }](call, "k", "m"); !errors.As(err, &malformed) {
		t.Error(err)
	}
	if err := call.Ask(layby.Form[who]("k", "m").Choices("nobody", "a")); !errors.As(err, &malformed) {
		t.Error(err)
	}
	host := laybytest.New(laybytest.Accept(`{}`)).Without(layby.KindURL)
	if host.Call().Supports(layby.KindURL) || !host.Call().Supports(layby.KindForm) {
		t.Error("the wrong kinds are supported")
	}
	if err := host.Call().Ask(layby.URL("k", "m", "https://x")); !errors.Is(err, layby.ErrUnsupported) {
		t.Error(err)
	}
}

func TestWhatACallSays(t *testing.T) {
	host := laybytest.New().CancelAfter(1)
	call := host.Call()
	call.Progress(1, 0, "one")
	call.Progress(2, 4, "")
	call.Log(layby.LevelNotice, "line")
	call.Changed(layby.ContentsChanged("a:b"))
	if first, second := call.Check(), call.Check(); first != nil || second != layby.ErrCancelled || !call.Cancelled() {
		t.Error(first, second)
	}
	if got := host.Progress(); !reflect.DeepEqual(got, []laybytest.Progress{{Done: 1, Message: "one"}, {Done: 2, Total: 4}}) {
		t.Error(got)
	}
	if got := host.Logged(); !reflect.DeepEqual(got, []laybytest.Line{{Level: layby.LevelNotice, Message: "line"}}) {
		t.Error(got)
	}
	if got := host.Changes(); len(got) != 1 || got[0] != layby.ContentsChanged("a:b") {
		t.Error(got)
	}
}

func TestConfiguration(t *testing.T) {
	t.Run("set", func(t *testing.T) {
		laybytest.SetConfig(t, map[string]string{"color": "blue"})
		if value, ok := layby.Config("color"); value != "blue" || !ok {
			t.Error(value, ok)
		}
	})
	if value, ok := layby.Config("color"); ok {
		t.Error(value)
	}
}

func TestStructuredLogging(t *testing.T) {
	lines := laybytest.LogLines(t)
	logger := slog.New(layby.NewLogHandler("table"))
	logger.Warn("plain")
	logger.With("a", 1).WithGroup("g").With("b", "x y").Error("told", "c", 2.5, slog.Group("h", "d", true))
	logger.Log(context.Background(), slog.LevelDebug-4, "fine")
	want := []laybytest.LogLine{
		{Level: "warn", Context: "table", Message: "plain"},
		{Level: "error", Context: "table", Message: "told a=1 g.b=x y g.c=2.5 g.h.d=true"},
		{Level: "trace", Context: "table", Message: "fine"},
	}
	if got := lines(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

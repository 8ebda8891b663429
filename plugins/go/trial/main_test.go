package main

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"layby.dev/layby"
	"layby.dev/layby/laybytest"
)

func TestTheMessageIsTheFailure(t *testing.T) {
	if _, err := laybytest.New().CallText("fail", `{"message":"no luck"}`); err == nil || err.Error() != "no luck" {
		t.Error(err)
	}
	if text, err := laybytest.New().CallText("echo", `{"text":"ü"}`); err != nil || text != "ü" {
		t.Error(text, err)
	}
}

func TestBothQuestionsArePutAtOnce(t *testing.T) {
	host := laybytest.New(laybytest.Accept(`{"value":"a"}`), laybytest.Decline())
	if text, err := host.CallText("ask", `{}`); err != nil || text != "first: a, second: declined" {
		t.Error(text, err)
	}
	if asked := host.Asked(); len(asked) != 2 || asked[0].Key != "first" || asked[1].Key != "second" {
		t.Errorf("%+v", asked)
	}
	if _, err := laybytest.New().CallText("ask", `{}`); !errors.Is(err, layby.ErrUnsupported) {
		t.Error(err)
	}
}

func TestItWaitsUntilItIsTold(t *testing.T) {
	host := laybytest.New().CancelAfter(2)
	if _, err := host.CallText("wait", `{}`); !errors.Is(err, layby.ErrCancelled) {
		t.Error(err)
	}
	if got := host.Progress(); !reflect.DeepEqual(got, []laybytest.Progress{{Done: 1}, {Done: 2}, {Done: 3}}) {
		t.Error(got)
	}
	want := []laybytest.Line{{Level: layby.LevelNotice, Message: "stopped on request"}}
	if got := host.Logged(); !reflect.DeepEqual(got, want) {
		t.Error(got)
	}
}

func TestConfigurationAndLines(t *testing.T) {
	laybytest.SetConfig(t, map[string]string{"color": "blue"})
	for key, want := range map[string]string{"color": "blue", "colour": "no value"} {
		if text, err := laybytest.New().CallText("config", `{"key":"`+key+`"}`); err != nil || text != want {
			t.Error(text, err)
		}
	}
	lines := laybytest.LogLines(t)
	host := laybytest.New()
	if text, err := host.CallText("log", `{}`); err != nil || text != "logged" {
		t.Error(text, err)
	}
	if got := lines(); !reflect.DeepEqual(got, []laybytest.LogLine{{Level: "warn", Context: "trial", Message: "a line by wasi:logging"}}) {
		t.Error(got)
	}
}

func TestRoundsTellWhatTheyDrewAndHeard(t *testing.T) {
	if got := digest("foobar"); got != 0x85944171f73967e8 {
		t.Errorf("%x", got)
	}
	host := laybytest.New(laybytest.Accept(`{"value":"a"}`), laybytest.Decline(), laybytest.Dismiss())
	text, err := host.CallText("rounds", `{"sleep_ms":2}`)
	if err != nil {
		t.Fatal(err)
	}
	answers := []string{"a", "declined", "dismissed"}
	var lines []string
	for i, request := range host.Asked() {
		drawn, ok := strings.CutPrefix(request.Message, fmt.Sprintf("round %d: ", i+1))
		if request.Key != "round" || !ok || len(drawn) != 16 {
			t.Errorf("%+v", request)
		}
		lines = append(lines, fmt.Sprintf("%d %s %s", i+1, drawn, answers[i]))
	}
	want := strings.Join(lines, "\n")
	want = fmt.Sprintf("%s\ndigest %016x", want, digest(want))
	if len(lines) != 3 || text != want {
		t.Errorf("got:\n%s\nwant:\n%s", text, want)
	}
	if got := host.Progress(); !reflect.DeepEqual(got, []laybytest.Progress{{Done: 1, Total: 3}, {Done: 2, Total: 3}, {Done: 3, Total: 3}}) {
		t.Error(got)
	}
}

package main

import (
	"errors"
	"testing"

	"layby.dev/layby"
	"layby.dev/layby/laybytest"
)

func TestItGreetsByName(t *testing.T) {
	host := laybytest.New()
	text, err := host.CallText("greet", `{"name": "Ada"}`)
	if err != nil || text != "Hello, Ada!" {
		t.Errorf("got %q and the error %v", text, err)
	}
	if len(host.Progress()) != 1 || len(host.Asked()) != 0 {
		t.Errorf("reported %v and asked %v", host.Progress(), host.Asked())
	}
}

func TestItAsksForAMissingName(t *testing.T) {
	for want, reply := range map[string]layby.Reply{
		"Hello, Grace!":           laybytest.Accept(`{"name": "Grace"}`),
		"Hello, whoever you are!": laybytest.Decline(),
	} {
		text, err := laybytest.New(reply).CallText("greet", `{}`)
		if err != nil || text != want {
			t.Errorf("got %q and the error %v, and not %q", text, err, want)
		}
	}
}

func TestItStopsWhenCancelled(t *testing.T) {
	host := laybytest.New().CancelAfter(0)
	if _, err := host.CallText("greet", `{}`); !errors.Is(err, layby.ErrCancelled) {
		t.Errorf("ended with %v", err)
	}
}

// Command {{name}} is a plugin for Layby: one tool, which asks a question.
package main

import "layby.dev/layby"

// Greet says whom to greet.
type Greet struct {
	Name *string `json:"name" desc:"Their name. Where it is missing, the tool asks for it."`
}

// Who is the question.
type Who struct {
	Name string `json:"name" desc:"Your name"`
}

func greet(call *layby.Call, args Greet) (string, error) {
	call.Progress(0, 1, "thinking of a greeting")
	if err := call.Check(); err != nil {
		return "", err // the caller has cancelled
	}
	if args.Name != nil {
		return "Hello, " + *args.Name + "!", nil
	}
	answer, err := layby.Ask[Who](call, "who", "Whom shall I greet?")
	if err != nil {
		return "", err
	}
	if who, ok := answer.Accepted(); ok {
		return "Hello, " + who.Name + "!", nil
	}
	return "Hello, whoever you are!", nil
}

func init() {
	layby.Tool("greet", "Greets somebody.", greet, layby.ReadOnly())
}

// The host calls the plugin as a library, so main does nothing.
func main() {}

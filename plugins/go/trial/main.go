// Command trial uses each thing that the kit has, as trial of every language does. The host's tests call it;
// nobody should serve it.
package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"layby.dev/layby"
)

func init() {
	layby.Tool("echo", "Returns the text.", echo, layby.ReadOnly())
	layby.Tool("fail", "Fails with the message.", fail)
	layby.Tool("trap", "Traps.", trap)
	layby.Tool("spin", "Computes for ever.", spin)
	layby.Tool("wait", "Waits until it is cancelled.", wait)
	layby.Tool("ask", "Asks two questions at once.", ask)
	layby.Tool("config", "Returns a value of the plugin's configuration.", config)
	layby.Tool("log", "Writes a line to each place for lines.", log)
}

func main() {}

type none = struct{}

type echoArgs struct {
	Text string `json:"text"`
}

func echo(_ *layby.Call, args echoArgs) (string, error) {
	return args.Text, nil
}

type failArgs struct {
	Message string `json:"message"`
}

func fail(_ *layby.Call, args failArgs) (none, error) {
	return none{}, errors.New(args.Message)
}

func trap(*layby.Call, none) (none, error) {
	// A fault of the runtime's own, which recover does not stop.
	var mutex sync.Mutex
	mutex.Unlock()
	return none{}, nil
}

// rounds is looked at by nobody, which the compiler does not know.
var rounds uint64

func spin(*layby.Call, none) (none, error) {
	for {
		rounds++
	}
}

func wait(call *layby.Call, _ none) (none, error) {
	for turns := 1.0; ; turns++ {
		call.Progress(turns, 0, "")
		if err := call.Check(); err != nil {
			call.Log(layby.LevelNotice, "stopped on request")
			return none{}, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

type reply struct {
	Value string `json:"value"`
}

func ask(call *layby.Call, _ none) (string, error) {
	first := layby.Form[reply]("first", "The first?")
	second := layby.Form[reply]("second", "The second?")
	if err := call.Ask(first, second); err != nil {
		return "", err
	}
	return fmt.Sprintf("first: %s, second: %s", shown(first.Answer), shown(second.Answer)), nil
}

func shown(answer layby.Answer[reply]) string {
	switch answer.Outcome {
	case layby.Accepted:
		return answer.Value.Value
	case layby.Declined:
		return "declined"
	default:
		return "dismissed"
	}
}

type configArgs struct {
	Key string `json:"key"`
}

func config(_ *layby.Call, args configArgs) (string, error) {
	if value, ok := layby.Config(args.Key); ok {
		return value, nil
	}
	return "no value", nil
}

func log(call *layby.Call, _ none) (string, error) {
	slog.New(layby.NewLogHandler("trial")).Warn("a line by wasi:logging")
	call.Log(layby.LevelNotice, "a line by the call")
	fmt.Fprintln(os.Stderr, "a line on standard error")
	fmt.Println("a line on standard output")
	return "logged", nil
}

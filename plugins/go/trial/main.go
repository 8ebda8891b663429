// Command trial uses each thing that the kit has, as trial of every language does. The host's tests call it;
// nobody should serve it.
package main

import (
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
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
	layby.Tool("rounds", "Draws a number, asks about it and sleeps, round after round, and tells all at the end.", rounds)
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

// turns is looked at by nobody, which the compiler does not know.
var turns uint64

func spin(*layby.Call, none) (none, error) {
	for {
		turns++
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

type roundsArgs struct {
	Rounds  int `json:"rounds" min:"1" max:"100" default:"3" desc:"How many rounds."`
	SleepMS int `json:"sleep_ms" min:"0" max:"3600000" default:"0" desc:"How long to sleep after each answer, in milliseconds."`
}

// A round is what a round leaves in memory.
type round struct {
	drawn  uint64
	begun  time.Time
	answer string
}

func rounds(call *layby.Call, args roundsArgs) (string, error) {
	pause := time.Duration(args.SleepMS) * time.Millisecond
	var kept []round
	for number := 1; number <= args.Rounds; number++ {
		// A time has both clocks.
		drawn, begun := rand.Uint64(), time.Now()
		call.Progress(float64(number), float64(args.Rounds), "")
		fmt.Println("round", number)
		question := layby.Form[reply]("round", fmt.Sprintf("round %d: %016x", number, drawn))
		if err := call.Ask(question); err != nil {
			return "", err
		}
		kept = append(kept, round{drawn, begun, shown(question.Answer)})

		asleep := time.Now()
		time.Sleep(pause)
		awake := time.Now()
		for _, earlier := range kept {
			// By the monotonic clock, as both have it.
			if awake.Before(earlier.begun) {
				return "", errors.New("the clock went back")
			}
		}
		if awake.Sub(asleep) < pause {
			return "", errors.New("slept too little")
		}
	}
	lines := make([]string, len(kept))
	for i, round := range kept {
		lines[i] = fmt.Sprintf("%d %016x %s", i+1, round.drawn, round.answer)
	}
	text := strings.Join(lines, "\n")
	return fmt.Sprintf("%s\ndigest %016x", text, digest(text)), nil
}

func digest(text string) uint64 {
	hash := fnv.New64a()
	hash.Write([]byte(text))
	return hash.Sum64()
}

package layby

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

type color string

type inner struct {
	N uint8 `json:"n"`
}

type Embedded struct {
	Deep string `json:"deep"`
}

type everything struct {
	Embedded
	Name     string            `json:"name" desc:"Its \"name\"." min:"1" max:"9"`
	Kind     color             `json:"kind" enum:"red,blue" default:"red"`
	Nick     *string           `json:"nick" title:"Nickname"`
	Count    int               `json:"count,omitempty" min:"-1" max:"7"`
	Share    float64           `json:"share"`
	Is       bool              `json:"is" default:"true"`
	Inner    inner             `json:"inner"`
	List     []inner           `json:"list" max:"3"`
	Words    []string          `json:"words,omitzero" enum:"a,b"`
	Pair     [2]int            `json:"pair"`
	Map      map[string]int    `json:"map"`
	Bytes    []byte            `json:"bytes"`
	At       time.Time         `json:"at"`
	Day      string            `json:"day" format:"date"`
	Raw      json.RawMessage   `json:"raw"`
	Any      any               `json:"any"`
	Quoted   int64             `json:"quoted,string"`
	Deeper   map[string][]bool `json:"deeper"`
	Plain    string
	Hidden   string `json:"-"`
	internal string
}

func TestSchemaOfEverything(t *testing.T) {
	schema, err := argumentsSchema(reflect.TypeFor[everything]())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"object","properties":{
		"deep":{"type":"string"},
		"name":{"type":"string","description":"Its \"name\".","minLength":1,"maxLength":9},
		"kind":{"type":"string","enum":["red","blue"],"default":"red"},
		"nick":{"type":"string","title":"Nickname"},
		"count":{"type":"integer","minimum":-1,"maximum":7},
		"share":{"type":"number"},
		"is":{"type":"boolean","default":true},
		"inner":{"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":255}},"required":["n"],"additionalProperties":false},
		"list":{"type":"array","maxItems":3,"items":{"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":255}},"required":["n"],"additionalProperties":false}},
		"words":{"type":"array","items":{"type":"string","enum":["a","b"]}},
		"pair":{"type":"array","minItems":2,"maxItems":2,"items":{"type":"integer"}},
		"map":{"type":"object","properties":{},"additionalProperties":{"type":"integer"}},
		"bytes":{"type":"string","contentEncoding":"base64"},
		"at":{"type":"string","format":"date-time"},
		"day":{"type":"string","format":"date"},
		"raw":{},
		"any":{},
		"quoted":{"type":"string"},
		"deeper":{"type":"object","properties":{},"additionalProperties":{"type":"array","items":{"type":"boolean"}}},
		"Plain":{"type":"string"}},
		"required":["deep","name","share","inner","list","pair","map","bytes","at","day","raw","any","quoted","deeper","Plain"],
		"additionalProperties":false}`
	want = strings.NewReplacer("\n", "", "\t", "").Replace(want)
	if got := string(schema.encode()); got != want {
		t.Errorf("got\n%s\nand not\n%s", got, want)
	}
}

func TestSchemaOfAResult(t *testing.T) {
	type result struct {
		Maybe *int    `json:"maybe"`
		Out   *string `json:"out,omitempty"`
		List  []inner `json:"list"`
	}
	schema, err := outputSchema(reflect.TypeFor[*result]())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"object","properties":{"maybe":{"type":["integer","null"]},"out":{"type":"string"},` +
		`"list":{"type":"array","items":{"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":255}},` +
		`"required":["n"]}}},"required":["maybe","list"]}`
	if got := string(schema.encode()); got != want {
		t.Errorf("got\n%s\nand not\n%s", got, want)
	}
	// What the schema calls a list is never null.
	if encoded, err := encode(result{}); err != nil || string(encoded) != `{"maybe":null,"list":[]}` {
		t.Errorf("%s, %v", encoded, err)
	}
}

type cyclic struct {
	Next []cyclic `json:"next"`
}

func TestWhatHasNoSchemaIsRefused(t *testing.T) {
	for want, refused := range map[string]reflect.Type{
		"within itself":   reflect.TypeFor[cyclic](),
		"are a struct":    reflect.TypeFor[string](),
		"keys are string": reflect.TypeFor[struct{ M map[int]int }](),
		"not to be had":   reflect.TypeFor[struct{ C chan int }](),
		"field E: its tag enum is for": reflect.TypeFor[struct {
			E bool `enum:"a"`
		}](),
		"no whole number": reflect.TypeFor[struct {
			E int `enum:"a"`
		}](),
		"no number": reflect.TypeFor[struct {
			E int `min:"a"`
		}](),
		"default does not fit": reflect.TypeFor[struct {
			E int `default:"a"`
		}](),
	} {
		if _, err := argumentsSchema(refused); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, and not %q", refused, err, want)
		}
	}
}

func TestAFormIsFlat(t *testing.T) {
	for _, refused := range []reflect.Type{
		reflect.TypeFor[struct{}](), reflect.TypeFor[int](), reflect.TypeFor[struct{ I inner }](),
		reflect.TypeFor[struct{ I []int }](), reflect.TypeFor[struct{ I any }](), reflect.TypeFor[struct{ I []byte }](),
	} {
		if _, err := formSchema(refused); err == nil {
			t.Errorf("%v is taken for a form", refused)
		}
	}
}

func TestDefaultsAreFilledIn(t *testing.T) {
	type args struct {
		Kind  color    `json:"kind" default:"red"`
		Is    bool     `json:"is" default:"true"`
		Maybe *int     `json:"maybe" default:"3"`
		List  []string `json:"list" default:"[\"a\"]"`
		In    struct {
			N int `json:"n" default:"4"`
		} `json:"in"`
	}
	var got args
	setDefaults(reflect.ValueOf(&got).Elem())
	if err := json.Unmarshal([]byte(`{"is":false,"in":{}}`), &got); err != nil {
		t.Fatal(err)
	}
	if got.Kind != "red" || got.Is || got.Maybe == nil || *got.Maybe != 3 || len(got.List) != 1 || got.In.N != 4 {
		t.Errorf("%+v", got)
	}
}

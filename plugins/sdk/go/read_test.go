package layby

import (
	"reflect"
	"testing"
)

type taken struct {
	Whole  int             `json:"whole" default:"7"`
	Byte   *uint8          `json:"byte"`
	List   []int64         `json:"list"`
	Number float64         `json:"number"`
	Text   string          `json:"text"`
	Inner  struct{ N int } `json:"inner"`
}

func TestWholeNumbersAreIntegersHoweverTheyAreWritten(t *testing.T) {
	var got taken
	setDefaults(reflect.ValueOf(&got).Elem())
	given := `{"byte":2.55e2,"list":[1.0,1e1,-0.0,9007199254740992.0],"number":1.0,"text":"<1.0>","inner":{"N":3.0}}`
	if err := readJSON([]byte(given), &got); err != nil {
		t.Fatal(err)
	}
	if got.Whole != 7 || *got.Byte != 255 || !reflect.DeepEqual(got.List, []int64{1, 10, 0, 1 << 53}) ||
		got.Number != 1 || got.Text != "<1.0>" || got.Inner.N != 3 {
		t.Errorf("%+v", got)
	}
}

func TestWhatDoesNotFitIsToldInWords(t *testing.T) {
	for given, want := range map[string]string{
		`{"whole":1.5}`:      "whole: a whole number from -9223372036854775808 to 9223372036854775807 is expected, and not 1.5",
		`{"byte":256.0}`:     "byte: a whole number from 0 to 255 is expected, and not 256",
		`{"whole":1e300}`:    "whole: a whole number from -9223372036854775808 to 9223372036854775807 is expected, and not 1e300",
		`{"list":"x"}`:       "list: a list is expected, and not a text",
		`{"text":true}`:      "text: a text is expected, and not true or false",
		`{"inner":{"N":[]}}`: "inner.N: a whole number from -9223372036854775808 to 9223372036854775807 is expected, and not a list",
		`{"number":{}}`:      "number: a number is expected, and not an object",
		`[]`:                 "an object is expected, and not a list",
	} {
		if err := readJSON([]byte(given), new(taken)); err == nil || err.Error() != want {
			t.Errorf("%s: %v", given, err)
		}
	}
}

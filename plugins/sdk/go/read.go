package layby

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// readJSON reads what a caller gave. To JSON Schema, and so to the host, 1.0 and 1e1 are whole numbers;
// encoding/json refuses them for an integer. So what does not fit is read again with them as integers.
func readJSON(text []byte, into any) error {
	err := json.Unmarshal(text, into)
	if failed := new(json.UnmarshalTypeError); !errors.As(err, &failed) {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) == nil {
		if again, wrong := json.Marshal(withIntegers(value)); wrong == nil {
			err = json.Unmarshal(again, into)
		}
	}
	return misfit(err)
}

// withIntegers writes every whole number within 2^53, where a double is exact, without a point and an exponent.
func withIntegers(value any) any {
	switch value := value.(type) {
	case json.Number:
		number, err := value.Float64()
		if err == nil && strings.ContainsAny(value.String(), ".eE") && number == math.Trunc(number) &&
			math.Abs(number) <= 1<<53 {
			return json.Number(strconv.FormatInt(int64(number), 10))
		}
	case []any:
		for i := range value {
			value[i] = withIntegers(value[i])
		}
	case map[string]any:
		for name := range value {
			value[name] = withIntegers(value[name])
		}
	}
	return value
}

// misfit says what does not fit in the words of JSON: a caller knows nothing of this plugin's types.
func misfit(err error) error {
	wrong := new(json.UnmarshalTypeError)
	if !errors.As(err, &wrong) {
		return err
	}
	given, ok := strings.CutPrefix(wrong.Value, "number ")
	if !ok {
		names := map[string]string{"string": "a text", "object": "an object", "array": "a list", "bool": "true or false"}
		if given, ok = names[wrong.Value]; !ok {
			given = "a " + wrong.Value
		}
	}
	where := ""
	if wrong.Field != "" {
		where = wrong.Field + ": "
	}
	return fmt.Errorf("%s%s is expected, and not %s", where, expected(wrong.Type), given)
}

// expected is a type in words.
func expected(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		most := int64(math.MaxInt64) >> (64 - t.Bits())
		return fmt.Sprintf("a whole number from %d to %d", -most-1, most)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return fmt.Sprintf("a whole number from 0 to %d", uint64(math.MaxUint64)>>(64-t.Bits()))
	case reflect.Slice, reflect.Array:
		return "a list"
	default:
		return "an object"
	}
}

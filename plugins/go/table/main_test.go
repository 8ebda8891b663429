package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"layby.dev/layby"
	"layby.dev/layby/laybytest"
)

// told is the tool's text, and its structured content.
func told(host *laybytest.Host, arguments map[string]string) (string, summary, error) {
	encoded, _ := json.Marshal(arguments)
	result, err := host.CallTool("summarize_table", string(encoded))
	if err != nil {
		return "", summary{}, err
	}
	var made summary
	err = json.Unmarshal(result.StructuredContent, &made)
	text, _ := result.Content[0].(layby.Text)
	return string(text), made, err
}

func TestATableIsToldInWordsAndInNumbers(t *testing.T) {
	csv := "id,name\r\n1,Ada\r\n2, Bo \r\n3,\r\n4,\"Ada\"\r\n5,Friedrich\r\n"
	result, err := laybytest.New().CallTool("summarize_table", `{"csv":`+string(must(json.Marshal(csv)))+`}`)
	if err != nil {
		t.Fatal(err)
	}
	want := layby.Text("5 rows, 2 columns, key: id\n" +
		"id: integer, 5 values, 5 distinct, 1 to 5, mean 3.00\n" +
		"name: text, 4 values, 1 missing, 3 distinct, 2 to 9 characters")
	if result.Content[0] != want {
		t.Error(result.Content[0])
	}
	structured := `{"rows":5,"key":"id","duplicates":0,"columns":[` +
		`{"name":"id","type":"integer","values":5,"missing":0,"distinct":5,"min":1,"max":5,"mean":3},` +
		`{"name":"name","type":"text","values":4,"missing":1,"distinct":3,"shortest":2,"longest":9}]}`
	if string(result.StructuredContent) != structured {
		t.Errorf("%s", result.StructuredContent)
	}
}

func must(encoded []byte, _ error) []byte {
	return encoded
}

func TestWhatIsMalformedIsToldWithItsLine(t *testing.T) {
	for csv, want := range map[string]string{
		"":                                    "line 1: the table has no header",
		"\n\r\n\n":                            "line 1: the table has no header",
		"\ufeff":                              "line 1: the table has no header",
		"a,,c\n":                              "line 1: column 2 has no name",
		"a, ,c\n":                             "line 1: column 2 has no name",
		"\na,b,a\n":                           `line 2: two columns are named "a"`,
		"a,b\n1,2\n\r\n3\n":                   "line 4: 1 fields, and the header has 2",
		"a,b\n\"1\n\n1\",2\n\n3,4,5\n":        "line 6: 3 fields, and the header has 2",
		"a,b\r\n\r\n\"1\r\n1\",2\r\n1\r\n":    "line 5: 1 fields, and the header has 2",
		"a,b\n\"1\n1\"\n":                     "line 2: 1 fields, and the header has 2",
		"a,b\n1,2\n3,\"4\n5,6\n":              "line 3: a quoted field is not closed",
		"a,b\n1,\"2\"\"":                      "line 2: a quoted field is not closed",
		"\"a":                                 "line 1: a quoted field is not closed",
		"a,b\n\"1\"x,2\n3,4\n":                "line 2: a quoted field has something behind it",
		"a,b\n1\"x,2\n3,4\n":                  "line 2: a field with a quote in it is not quoted",
		"a\n1\n\xff\n2\n":                     "line 3: not UTF-8",
		"a\xff\n1\n":                          "line 1: not UTF-8",
		strings.Repeat("a\n", 3000) + "a,b\n": "line 3001: 2 fields, and the header has 1",
	} {
		if _, err := summarize(laybytest.New().Call(), strings.NewReader(csv), nil); err == nil || err.Error() != want {
			t.Errorf("%.40q: %v, and not %s", csv, err, want)
		}
	}
}

func TestQuotesBlankLinesAndAMarkAreNoTrouble(t *testing.T) {
	text, _, err := told(laybytest.New(), map[string]string{
		"csv": "\ufeffa,\"b\"\n\n1,\"x\ny\"\n\n\"2\",\"say \"\"hi\"\"\"",
	})
	want := "2 rows, 2 columns, key: a\na: integer, 2 values, 2 distinct, 1 to 2, mean 1.50\n" +
		"b: text, 2 values, 2 distinct, 3 to 8 characters"
	if err != nil || text != want {
		t.Error(text, err)
	}
}

func TestOneSourceIsGiven(t *testing.T) {
	for _, arguments := range []map[string]string{{}, {"csv": "a", "path": "/a"}} {
		if _, _, err := told(laybytest.New(), arguments); err == nil || err.Error() != "give either csv or path" {
			t.Error(err)
		}
	}
	folder := t.TempDir()
	for _, path := range []string{"/no/such/table.csv", folder} {
		_, _, err := told(laybytest.New(), map[string]string{"path": path})
		if err == nil || !strings.HasPrefix(err.Error(), "cannot read "+path+": ") || strings.Count(err.Error(), path) != 1 {
			t.Error(err)
		}
	}
	if _, err := laybytest.New().CallText("summarize_table", `{"path":"`+folder+`"}`); err == nil || !strings.HasSuffix(err.Error(), ": it is a folder") {
		t.Error(err)
	}
	path := filepath.Join(folder, "t.csv")
	if err := os.WriteFile(path, []byte("a\n1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, made, err := told(laybytest.New(), map[string]string{"path": path}); err != nil || made.Rows != 1 {
		t.Error(made, err)
	}
}

func TestTheKeyIsGivenFoundOrAskedFor(t *testing.T) {
	const csv = "a,b\n1,x\n1,y\n2,\n"
	first := func(host *laybytest.Host, arguments map[string]string) string {
		text, _, err := told(host, arguments)
		if err != nil {
			return err.Error()
		}
		line, _, _ := strings.Cut(text, "\n")
		return line
	}
	for key, want := range map[string]string{
		"a": "3 rows, 2 columns, key: a, 1 duplicates",
		"c": `there is no column "c"; there are "a", "b"`,
	} {
		if got := first(laybytest.New(), map[string]string{"csv": csv, "key": key}); got != want {
			t.Error(got)
		}
	}
	host := laybytest.New(laybytest.Accept(`{"key":"b"}`))
	if got := first(host, map[string]string{"csv": csv}); got != "3 rows, 2 columns, key: b, 1 duplicates" {
		t.Error(got)
	}
	const schema = `{"type":"object","properties":{"key":{"type":"string","enum":["a","b"]}},"required":["key"]}`
	if asked := host.Asked(); len(asked) != 1 || asked[0].Key != "key_column" || string(asked[0].JSON) != schema {
		t.Errorf("%+v", asked)
	}
	for _, no := range []layby.Reply{laybytest.Decline(), laybytest.Dismiss()} {
		if _, made, err := told(laybytest.New(no), map[string]string{"csv": csv}); err != nil || made.Key != nil || made.Duplicates != nil {
			t.Error(made, err)
		}
	}
	if _, _, err := told(laybytest.New(), map[string]string{"csv": csv}); !errors.Is(err, layby.ErrUnsupported) {
		t.Error(err)
	}
	text, _, err := told(laybytest.New(), map[string]string{"csv": "a,b\n"})
	if err != nil || text != "0 rows, 2 columns, no key\na: empty, 0 values\nb: empty, 0 values" {
		t.Error(text, err)
	}
}

func TestProgressComesByTheThousandAndAtTheEnd(t *testing.T) {
	var csv strings.Builder
	csv.WriteString("n\n")
	for n := range 2500 {
		fmt.Fprintln(&csv, n)
	}
	arguments := map[string]string{"csv": csv.String()}
	host := laybytest.New()
	if _, _, err := told(host, arguments); err != nil {
		t.Fatal(err)
	}
	want := []laybytest.Progress{
		{Done: 1000, Message: "1000 rows"}, {Done: 2000, Message: "2000 rows"}, {Done: 2500, Total: 2500, Message: "2500 rows"},
	}
	if got := host.Progress(); !reflect.DeepEqual(got, want) {
		t.Error(got)
	}
	for checks := range 3 {
		if _, _, err := told(laybytest.New().CancelAfter(checks), arguments); !errors.Is(err, layby.ErrCancelled) {
			t.Error(checks, err)
		}
	}
	if _, _, err := told(laybytest.New().CancelAfter(3), arguments); err != nil {
		t.Error(err)
	}
}

func TestAColumnIsWhatAllOfItsCellsAre(t *testing.T) {
	for cells, want := range map[string]kind{
		"":                   nothing,
		";":                  nothing,
		"1;-2;+003;":         integers,
		"999999999999999":    integers,
		"9999999999999999":   numbers,
		"1;.5;2.;1e3;-1E-02": numbers,
		"TRUE;false;False":   booleans,
		"true;1":             texts,
		"1;x":                texts,
		"1e999":              texts,
		"1e-999":             numbers,
	} {
		column := newColumn("c")
		for cell := range strings.SplitSeq(cells, ";") {
			column.take(cell)
		}
		if column.kind() != want {
			t.Errorf("%q is %s and not %s", cells, column.kind(), want)
		}
	}
	for _, cell := range []string{"inf", "NaN", ".", "+", "-.", "1e", "1e+", "1e1234", "1 2", "0x10", "1_000", "--1", "٣", "1.2.3"} {
		column := newColumn("c")
		column.take(cell)
		if column.kind() != texts {
			t.Errorf("%q is %s", cell, column.kind())
		}
	}
}

func TestASumTooLargeHasAMean(t *testing.T) {
	for cells, want := range map[string]float64{
		"1e308 1.7e308":                     1.35e308,
		"-1e308 -1.7e308 1":                 -9e307,
		"1.7e308 1.7e308 -1.7e308 -1.7e308": 0,
		"1.7976931348623157e308 1.7976931348623157e308 1.7976931348623157e308": math.MaxFloat64,
	} {
		column := newColumn("c")
		for _, cell := range strings.Fields(cells) {
			column.take(cell)
		}
		if got := *newStatistics(column).Mean; got != want {
			t.Errorf("%s: %v", cells, got)
		}
	}
}

func TestCellsAreCountedByTheirText(t *testing.T) {
	column := newColumn("c")
	for _, cell := range []string{"1", "1.0", "1", "", "01"} {
		column.take(cell)
	}
	made := newStatistics(column)
	if made.Values != 4 || made.Missing != 1 || made.Distinct != 3 || *made.Mean != 1 || math.Signbit(*made.Min) {
		t.Errorf("%+v", made)
	}
}

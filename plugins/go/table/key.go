package main

import (
	"fmt"
	"slices"
	"strings"

	"layby.dev/layby"
)

// chosen is what the caller fills in.
type chosen struct {
	Key string `json:"key"`
}

// findKey is the column that is given, the first that could be the key, or the caller's choice; nil for none.
func findKey(call *layby.Call, columns []*column, rows int, given *string) (*column, error) {
	if given != nil {
		return named(columns, *given)
	}
	if rows == 0 {
		return nil, nil
	}
	unique := slices.IndexFunc(columns, func(c *column) bool { return len(c.seen) == rows })
	if unique >= 0 {
		return columns[unique], nil
	}
	names := make([]string, len(columns))
	for i, column := range columns {
		names[i] = column.name
	}
	question := layby.Form[chosen]("key_column",
		"No column has a different value in every row. Which one identifies a row?").Choices("key", names...)
	if err := call.Ask(question); err != nil {
		return nil, err
	}
	if answer, ok := question.Answer.Accepted(); ok {
		return named(columns, answer.Key)
	}
	return nil, nil
}

func named(columns []*column, name string) (*column, error) {
	names := make([]string, len(columns))
	for i, column := range columns {
		if column.name == name {
			return column, nil
		}
		names[i] = `"` + column.name + `"`
	}
	return nil, fmt.Errorf("there is no column \"%s\"; there are %s", name, strings.Join(names, ", "))
}

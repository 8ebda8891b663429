package main

import (
	"fmt"
	"strconv"
	"strings"
)

// summary is the result of summarize_table.
type summary struct {
	Rows       int          `json:"rows" desc:"Records below the header." min:"0"`
	Key        *string      `json:"key,omitempty" desc:"The column that identifies a row."`
	Duplicates *int         `json:"duplicates,omitempty" desc:"Rows whose key is missing, or stands in an earlier row." min:"0"`
	Columns    []statistics `json:"columns"`
}

// statistics are those of one column.
type statistics struct {
	Name     string   `json:"name"`
	Type     kind     `json:"type" enum:"integer,number,boolean,text,empty"`
	Values   int      `json:"values" desc:"Cells with something in them." min:"0"`
	Missing  int      `json:"missing" desc:"Cells without." min:"0"`
	Distinct int      `json:"distinct" desc:"Different values." min:"0"`
	Min      *float64 `json:"min,omitempty" desc:"Of numbers: the smallest."`
	Max      *float64 `json:"max,omitempty" desc:"Of numbers: the largest."`
	Mean     *float64 `json:"mean,omitempty" desc:"Of numbers: their mean."`
	Shortest *int     `json:"shortest,omitempty" desc:"Of text: characters of the shortest." min:"0"`
	Longest  *int     `json:"longest,omitempty" desc:"Of text: characters of the longest." min:"0"`
}

func newSummary(rows int, columns []*column, key *column) *summary {
	made := &summary{Rows: rows}
	if key != nil {
		// A value's first row is none, and every other row is one.
		duplicates := rows - len(key.seen)
		made.Key, made.Duplicates = &key.name, &duplicates
	}
	for _, column := range columns {
		made.Columns = append(made.Columns, newStatistics(column))
	}
	return made
}

func newStatistics(c *column) statistics {
	made := statistics{
		Name: c.name, Type: c.kind(), Values: c.values, Missing: c.missing, Distinct: len(c.seen),
	}
	switch made.Type {
	case integers, numbers:
		mean := c.mean()
		made.Min, made.Max, made.Mean = &c.min, &c.max, &mean
	case texts:
		made.Shortest, made.Longest = &c.shortest, &c.longest
	}
	return made
}

// String is the summary in words.
func (s *summary) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d rows, %d columns, ", s.Rows, len(s.Columns))
	if s.Key == nil {
		text.WriteString("no key")
	} else {
		text.WriteString("key: " + *s.Key)
		if *s.Duplicates > 0 {
			fmt.Fprintf(&text, ", %d duplicates", *s.Duplicates)
		}
	}
	for _, column := range s.Columns {
		text.WriteByte('\n')
		column.describe(&text)
	}
	return text.String()
}

func (s *statistics) describe(text *strings.Builder) {
	fmt.Fprintf(text, "%s: %s, %d values", s.Name, s.Type, s.Values)
	if s.Missing > 0 {
		fmt.Fprintf(text, ", %d missing", s.Missing)
	}
	if s.Type != nothing {
		fmt.Fprintf(text, ", %d distinct", s.Distinct)
	}
	switch s.Type {
	case integers:
		whole := func(value float64) string { return strconv.FormatInt(int64(value), 10) }
		fmt.Fprintf(text, ", %s to %s, mean %.2f", whole(*s.Min), whole(*s.Max), *s.Mean)
	case numbers:
		fmt.Fprintf(text, ", %.2f to %.2f, mean %.2f", *s.Min, *s.Max, *s.Mean)
	case texts:
		fmt.Fprintf(text, ", %d to %d characters", *s.Shortest, *s.Longest)
	}
}

package main

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// kind is what the cells of a column are.
type kind string

const (
	integers kind = "integer"
	numbers  kind = "number"
	booleans kind = "boolean"
	texts    kind = "text"
	nothing  kind = "empty"
)

// column is a column, as far as it has been read.
type column struct {
	name            string
	values, missing int
	seen            map[string]struct{}
	// What all cells so far could be.
	integer, number, boolean bool
	min, max                 float64
	// The sum is sum / unit; see addToSum.
	sum, unit float64
	// In characters.
	shortest, longest int
}

func newColumn(name string) *column {
	return &column{
		name: name, seen: map[string]struct{}{},
		integer: true, number: true, boolean: true,
		min: math.Inf(1), max: math.Inf(-1), unit: 1, shortest: math.MaxInt,
	}
}

// take takes the next cell, without the blanks around it.
func (c *column) take(cell string) {
	if cell == "" {
		c.missing++
		return
	}
	c.values++
	if _, known := c.seen[cell]; !known {
		// A copy: the cell is a part of its whole record.
		c.seen[strings.Clone(cell)] = struct{}{}
	}
	c.integer = c.integer && isInteger(cell)
	c.boolean = c.boolean && isBoolean(cell)
	if c.number {
		value, ok := parseNumber(cell)
		c.number = ok
		c.min, c.max = min(c.min, value), max(c.max, value)
		c.addToSum(value)
	}
	length := utf8.RuneCountInString(cell)
	c.shortest, c.longest = min(c.shortest, length), max(c.longest, length)
}

// addToSum adds to the sum, which of finite numbers may be none: from where it is too large on, it is kept in units
// of 2^64, which is as exact. No table has so many rows that even that ends.
func (c *column) addToSum(value float64) {
	const unit = 0x1p-64
	sum := c.sum + float64(value*c.unit)
	if math.IsInf(sum, 0) {
		c.unit = unit
		sum = c.sum*unit + value*unit
	}
	c.sum = sum
}

func (c *column) mean() float64 {
	mean := c.sum / float64(c.values) / c.unit
	if c.unit < 1 {
		// What was rounded up could lie beyond all numbers.
		mean = min(max(mean, c.min), c.max)
	}
	return mean
}

func (c *column) kind() kind {
	switch {
	case c.values == 0:
		return nothing
	case c.integer:
		return integers
	case c.number:
		return numbers
	case c.boolean:
		return booleans
	default:
		return texts
	}
}

// isBoolean is true or false in any case. strings.EqualFold would also take letters that are not ASCII.
func isBoolean(cell string) bool {
	lower := strings.ToLower(cell)
	return lower == "true" || lower == "false"
}

// digits cuts the digits from the front of a text.
func digits(text string) (count int, rest string) {
	for count < len(text) && text[count] >= '0' && text[count] <= '9' {
		count++
	}
	return count, text[count:]
}

func withoutSign(text string) string {
	if text != "" && (text[0] == '+' || text[0] == '-') {
		return text[1:]
	}
	return text
}

// isInteger is [+-]?[0-9]{1,15}: what a double holds exactly.
func isInteger(cell string) bool {
	count, rest := digits(withoutSign(cell))
	return count >= 1 && count <= 15 && rest == ""
}

// parseNumber is [+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?, where it is finite. Go's own syntax
// also has inf, 0x and 1_000.
func parseNumber(cell string) (float64, bool) {
	whole, rest := digits(withoutSign(cell))
	fraction := 0
	if strings.HasPrefix(rest, ".") {
		fraction, rest = digits(rest[1:])
	}
	if whole+fraction == 0 {
		return 0, false
	}
	if rest != "" {
		if rest[0] != 'e' && rest[0] != 'E' {
			return 0, false
		}
		count, end := digits(withoutSign(rest[1:]))
		if count < 1 || count > 3 || end != "" {
			return 0, false
		}
	}
	value, err := strconv.ParseFloat(cell, 64)
	return value, err == nil
}

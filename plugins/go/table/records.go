package main

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// records reads a table as a stream.
type records struct {
	reader *csv.Reader
}

func newRecords(table io.Reader) *records {
	buffered := bufio.NewReaderSize(table, 64<<10)
	// A byte order mark. Where the table cannot be read, the first record tells.
	if start, _ := buffered.Peek(3); string(start) == "\ufeff" {
		_, _ = buffered.Discard(3)
	}
	reader := csv.NewReader(buffered)
	reader.FieldsPerRecord = -1
	reader.ReuseRecord = true
	return &records{reader}
}

// header reads the columns' names.
func (r *records) header() ([]*column, error) {
	record, line, err := r.read()
	if err == io.EOF {
		return nil, errors.New("line 1: the table has no header")
	}
	if err != nil {
		return nil, err
	}
	columns := make([]*column, 0, len(record))
	seen := make(map[string]bool, len(record))
	for i, name := range record {
		if name == "" {
			return nil, fmt.Errorf("line %d: column %d has no name", line, i+1)
		}
		if seen[name] {
			return nil, fmt.Errorf("line %d: two columns are named \"%s\"", line, name)
		}
		seen[name] = true
		columns = append(columns, newColumn(name))
	}
	return columns, nil
}

// next reads the next record into its columns; false at the end.
func (r *records) next(columns []*column) (bool, error) {
	record, line, err := r.read()
	if err == io.EOF {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if len(record) != len(columns) {
		return false, fmt.Errorf("line %d: %d fields, and the header has %d", line, len(record), len(columns))
	}
	for i, cell := range record {
		columns[i].take(cell)
	}
	return true, nil
}

// read gives the next record's cells without the blanks around them, and the line that it starts on.
func (r *records) read() ([]string, int, error) {
	record, err := r.reader.Read()
	if err != nil {
		return nil, 0, r.told(err)
	}
	line, _ := r.reader.FieldPos(0)
	for i, cell := range record {
		if !utf8.ValidString(cell) {
			return nil, 0, fmt.Errorf("line %d: not UTF-8", line)
		}
		record[i] = strings.Trim(cell, " \t")
	}
	return record, line, nil
}

func (r *records) told(err error) error {
	var malformed *csv.ParseError
	if !errors.As(err, &malformed) {
		return err
	}
	// One error stands for two faults: only a field that is not closed takes all that is left.
	_, after := r.reader.Read()
	switch {
	case malformed.Err == csv.ErrQuote && after == io.EOF:
		return fmt.Errorf("line %d: a quoted field is not closed", malformed.StartLine)
	case malformed.Err == csv.ErrQuote:
		return fmt.Errorf("line %d: a quoted field has something behind it", malformed.StartLine)
	case malformed.Err == csv.ErrBareQuote:
		return fmt.Errorf("line %d: a field with a quote in it is not quoted", malformed.StartLine)
	default:
		return fmt.Errorf("line %d: %w", malformed.StartLine, malformed.Err)
	}
}

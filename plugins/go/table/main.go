// Command table is a plugin with one tool: statistics of a CSV file.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"layby.dev/layby"
)

// stride is how many rows lie between two reports of progress, and two checks for cancellation.
const stride = 1000

type source struct {
	CSV  *string `json:"csv" desc:"The table itself, as CSV text with a header line."`
	Path *string `json:"path" desc:"Path of a CSV file in a granted folder, such as /tables/people.csv."`
	Key  *string `json:"key" desc:"Name of the column that identifies a row; found or asked for where it is not given."`
}

func init() {
	layby.Tool("summarize_table",
		"Statistics for each column of a CSV file, and which column identifies a row.",
		summarizeTable, layby.Title("Summarize a table"), layby.ReadOnly())
}

func main() {}

func summarizeTable(call *layby.Call, from source) (layby.Structured[summary], error) {
	made, err := summarizeSource(call, from)
	if err != nil {
		return layby.Structured[summary]{}, err
	}
	return layby.Structured[summary]{Text: made.String(), Value: *made}, nil
}

func summarizeSource(call *layby.Call, from source) (*summary, error) {
	switch {
	case from.CSV != nil && from.Path == nil:
		return summarize(call, strings.NewReader(*from.CSV), from.Key)
	case from.CSV == nil && from.Path != nil:
		return summarizeFile(call, *from.Path, from.Key)
	default:
		return nil, errors.New("give either csv or path")
	}
}

func summarizeFile(call *layby.Call, path string, key *string) (*summary, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, unread(path, err)
	}
	defer file.Close()
	// A folder opens like a file.
	if found, err := file.Stat(); err == nil && found.IsDir() {
		return nil, fmt.Errorf("cannot read %s: it is a folder", path)
	}
	made, err := summarize(call, file, key)
	// What opens may still not be read.
	if failed := new(fs.PathError); errors.As(err, &failed) {
		return nil, unread(path, err)
	}
	return made, err
}

func unread(path string, err error) error {
	if failed := new(fs.PathError); errors.As(err, &failed) {
		err = failed.Err
	}
	return fmt.Errorf("cannot read %s: %w", path, err)
}

func summarize(call *layby.Call, table io.Reader, key *string) (*summary, error) {
	records := newRecords(table)
	columns, err := records.header()
	if err != nil {
		return nil, err
	}
	rows := 0
	for {
		more, err := records.next(columns)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		rows++
		if rows%stride == 0 {
			if err := tell(call, rows, 0); err != nil {
				return nil, err
			}
		}
	}
	if rows > 0 {
		if err := tell(call, rows, rows); err != nil {
			return nil, err
		}
	}
	found, err := findKey(call, columns, rows, key)
	if err != nil {
		return nil, err
	}
	return newSummary(rows, columns, found), nil
}

func tell(call *layby.Call, rows, total int) error {
	call.Progress(float64(rows), float64(total), fmt.Sprintf("%d rows", rows))
	return call.Check()
}

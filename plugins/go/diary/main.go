// Command diary is a guest for tests: it writes files, with waits in between.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"layby.dev/layby"
)

func init() {
	layby.Tool("write_diary",
		"Writes a line and a page each day, asks before the next, and tells at the end what is there.", writeDiary)
}

func main() {}

type args struct {
	Folder string `json:"folder"`
	Days   int    `json:"days" min:"1" max:"100" default:"3"`
}

type reply struct {
	Value string `json:"value"`
}

func writeDiary(call *layby.Call, args args) (string, error) {
	pages, path := filepath.Join(args.Folder, "pages"), filepath.Join(args.Folder, "diary")
	if err := os.Mkdir(pages, 0o755); err != nil {
		return "", err
	}
	diary, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return "", err
	}
	defer diary.Close()
	for day := 1; day <= args.Days; day++ {
		if _, err := fmt.Fprintf(diary, "day %d\n", day); err != nil {
			return "", err
		}
		draft := filepath.Join(pages, "draft")
		page := fmt.Sprintf("page %d: %s", day, strings.Repeat("x", 10_000))
		if err := os.WriteFile(draft, []byte(page), 0o644); err != nil {
			return "", err
		}
		if err := os.Rename(draft, filepath.Join(pages, fmt.Sprint(day))); err != nil {
			return "", err
		}
		if err := call.Ask(layby.Form[reply]("day", fmt.Sprintf("Is day %d over?", day))); err != nil {
			return "", err
		}
	}
	return told(path, pages)
}

// told removes the first page, and says what is there.
func told(path, pages string) (string, error) {
	if err := os.Remove(filepath.Join(pages, "1")); err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	words := strings.Fields(string(text))
	entries, err := os.ReadDir(pages)
	for _, entry := range entries {
		words = append(words, entry.Name())
	}
	return strings.Join(words, " "), err
}

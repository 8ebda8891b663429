package layby

import (
	"context"
	"log/slog"
	"strings"
)

// Config is the value that the plugin's policy has for a key under grants.config, if it has one.
func Config(key string) (string, bool) {
	return configValue(key)
}

// NewLogHandler makes log/slog write to the operator's log alone, as WASI's standard interface for logging has it.
// [Call.Log] also reaches the caller's client. The context says what lines are about, and may be empty.
//
//	slog.SetDefault(slog.New(layby.NewLogHandler("greet")))
func NewLogHandler(context string) slog.Handler {
	return &logHandler{context: context}
}

// The levels of WASI's interface.
const (
	wasiTrace uint32 = iota
	wasiDebug
	wasiInfo
	wasiWarn
	wasiError
	wasiCritical
)

type logHandler struct {
	context string
	// What With and WithGroup have gathered: attributes as text, and the path before the next ones.
	attributes string
	group      string
}

func (h *logHandler) Enabled(context.Context, slog.Level) bool {
	return true
}

func (h *logHandler) Handle(_ context.Context, record slog.Record) error {
	var line strings.Builder
	line.WriteString(record.Message)
	line.WriteString(h.attributes)
	record.Attrs(func(attribute slog.Attr) bool {
		writeAttribute(&line, h.group, attribute)
		return true
	})
	logLine(wasiLevel(record.Level), h.context, line.String())
	return nil
}

func (h *logHandler) WithAttrs(attributes []slog.Attr) slog.Handler {
	var text strings.Builder
	text.WriteString(h.attributes)
	for _, attribute := range attributes {
		writeAttribute(&text, h.group, attribute)
	}
	return &logHandler{context: h.context, attributes: text.String(), group: h.group}
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &logHandler{context: h.context, attributes: h.attributes, group: h.group + name + "."}
}

func writeAttribute(line *strings.Builder, group string, attribute slog.Attr) {
	value := attribute.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		if attribute.Key != "" {
			group += attribute.Key + "."
		}
		for _, inner := range value.Group() {
			writeAttribute(line, group, inner)
		}
		return
	}
	if !attribute.Equal(slog.Attr{}) {
		line.WriteString(" " + group + attribute.Key + "=" + value.String())
	}
}

func wasiLevel(level slog.Level) uint32 {
	switch {
	case level < slog.LevelDebug:
		return wasiTrace
	case level < slog.LevelInfo:
		return wasiDebug
	case level < slog.LevelWarn:
		return wasiInfo
	case level < slog.LevelError:
		return wasiWarn
	case level < slog.LevelError+4:
		return wasiError
	default:
		return wasiCritical
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// tell writes a line on what happens while the command runs, with the time. Unlike complain it is for what may come hours
// after the start.
func (c *console) tell(format string, args ...any) {
	c.tellAt(time.Now(), fmt.Sprintf(format, args...))
}

func (c *console) tellAt(at time.Time, text string) {
	c.complain("%s  %s", at.Format(time.DateTime), text)
}

// logView shows the log of a server in lines like those of the command itself: when, how bad where it is, and what.
type logView struct {
	console *console
	least   slog.Level
	attrs   []slog.Attr
}

// newLog makes a log that shows records of a level and above.
func newLog(c *console, least slog.Level) *slog.Logger {
	return slog.New(&logView{console: c, least: least})
}

// Enabled implements slog.Handler.
func (v *logView) Enabled(_ context.Context, level slog.Level) bool { return level >= v.least }

// Handle implements slog.Handler. A cause stands behind a colon, all else that is told in parentheses.
func (v *logView) Handle(_ context.Context, record slog.Record) error {
	var b strings.Builder
	switch {
	case record.Level >= slog.LevelError:
		b.WriteString("error: ")
	case record.Level >= slog.LevelWarn:
		b.WriteString("warning: ")
	case record.Level < slog.LevelInfo:
		b.WriteString("debug: ")
	}
	b.WriteString(record.Message)
	var values []string
	add := func(attr slog.Attr) bool {
		text := valueText(attr.Value.Resolve())
		if attr.Key == "error" {
			b.WriteString(": " + text)
		} else {
			values = append(values, attr.Key+" "+text)
		}
		return true
	}
	for _, attr := range v.attrs {
		add(attr)
	}
	record.Attrs(add)
	if len(values) > 0 {
		b.WriteString(" (" + strings.Join(values, ", ") + ")")
	}
	v.console.tellAt(record.Time, printable(b.String(), longestSentence))
	return nil
}

// valueText words a value for a person.
func valueText(value slog.Value) string {
	if value.Kind() == slog.KindTime {
		return value.Time().UTC().Format("2006-01-02 15:04 MST")
	}
	if err, ok := value.Any().(error); ok {
		return sentence(err)
	}
	return value.String()
}

// WithAttrs implements slog.Handler.
func (v *logView) WithAttrs(attrs []slog.Attr) slog.Handler {
	more := *v
	more.attrs = append(v.attrs[:len(v.attrs):len(v.attrs)], attrs...)
	return &more
}

// WithGroup implements slog.Handler. The names of values are told without their groups.
func (v *logView) WithGroup(string) slog.Handler { return v }

// errLevel says what --log-level takes.
var errLevel = errors.New(`--log-level must be "debug", "info", "warn" or "error"`)

// logLevel reads --log-level.
func logLevel(text string) (slog.Level, error) {
	switch text {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, &usageError{err: errLevel}
}

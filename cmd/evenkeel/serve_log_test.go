// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheLogOfAServerIsInSentences(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := newConsole(nil, nil, io.Discard, &out)
		log := newLog(c, slog.LevelInfo)
		at := time.Now().Format(time.DateTime)
		log.Debug("not told")
		log.Info("serving with the changed certificate", slog.Time("expires", noon))
		log.With(slog.String("peer", "a:1")).Warn("a peer does not answer", slog.Any("error", errors.New("server: no\nanswer\x1b[31m")))
		log.WithGroup("x").Error("cannot accept", slog.Any("peer", &net.TCPAddr{Port: 7}), slog.Duration("after", 5*time.Millisecond))
		c.tell("drained: %s", "all")
		want := at + "  serving with the changed certificate (expires 2030-06-01 12:00 UTC)\n" +
			at + "  warning: a peer does not answer: no answer?[31m (peer a:1)\n" +
			at + "  error: cannot accept (peer :7, after 5ms)\n" +
			at + "  drained: all\n"
		if got := out.String(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

func TestLogLevels(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	} {
		level, err := logLevel(text)
		log := newLog(newConsole(nil, nil, io.Discard, io.Discard), level)
		if err != nil || level != want || !log.Enabled(context.Background(), want) || log.Enabled(context.Background(), want-1) {
			t.Errorf("%s: level %v, %v, want %v", text, level, err, want)
		}
	}
	got := call(t, nil, "", "serve", "--log-level", "loud")
	if got.status != exitUsage || !strings.Contains(got.stderr, `--log-level must be "debug", "info", "warn" or "error"`) {
		t.Errorf("status %d, %s", got.status, got.stderr)
	}
}

// TestServeShowsWhoIsRefusedWhenAsked: tokens and handshakes are told at the debug level, and not otherwise.
func TestServeShowsWhoIsRefusedWhenAsked(t *testing.T) {
	t.Parallel()
	clients := write(t, t.TempDir(), "clients.txt", "app:right\n")
	for level, told := range map[string]bool{"debug": true, "info": false} {
		r := begin(t, "serve", "--listen", "127.0.0.1:0", "--auth", "token", "--clients", clients, "--log-level", level)
		r.line()
		str, _ := strings.CutPrefix(r.line(), "connect with ")
		wrong := strings.Replace(str, "chronicle://", "chronicle://app:wr0ng@", 1)
		if got := call(t, nil, "", "connect", "--for", "500ms", "--jitter", "0", wrong); got.status != exitFailed {
			t.Errorf("connect with a wrong password: status %d", got.status)
		}
		untrusting, _, _ := strings.Cut(wrong, "/?")
		if got := call(t, nil, "", "probe", untrusting); got.status != exitFailed {
			t.Errorf("probe without trust: status %d", got.status)
		}
		if _, status := r.end(); status != exitDone {
			t.Errorf("serve: status %d", status)
		}
		for _, want := range []string{"debug: refused a token", "debug: TLS handshake: "} {
			if got := r.stderr.String(); strings.Contains(got, want) != told || strings.Contains(got, "wr0ng") {
				t.Errorf("--log-level %s: got %q, with %q in it: %v", level, got, want, told)
			}
		}
	}
}

func TestServeRefusesClientsThatNothingUses(t *testing.T) {
	t.Parallel()
	env := []string{clientsVariable + "=app:secret"}
	got := call(t, env, "", "serve", "--listen", "127.0.0.1:0")
	if want := clientsVariable + " is for --auth token"; got.status != exitUsage || !strings.Contains(got.stderr, want) {
		t.Errorf("status %d, %q, want %d and %q", got.status, got.stderr, exitUsage, want)
	}
	if strings.Contains(got.stderr, "secret") {
		t.Errorf("the secret shows: %s", got.stderr)
	}
	// Whoever says none means it; and a file goes before the variable, which is said.
	c := newConsole(env, nil, io.Discard, io.Discard)
	if auth, err := (&serveAuth{mode: authNone, chosen: true}).authenticator(c, slog.New(slog.DiscardHandler)); auth != nil || err != nil {
		t.Errorf("--auth none: %v, %v", auth, err)
	}
	var told bytes.Buffer
	c = newConsole(env, nil, io.Discard, &told)
	file := write(t, t.TempDir(), "clients.txt", "other:one\n")
	clients, err := (&serveAuth{mode: authToken, clients: file}).list(c)
	if err != nil || len(clients) != 1 || clients[0].ID != "other" || !strings.Contains(told.String(), clientsVariable+" is not used") {
		t.Errorf("clients %v, %v, and %q, want those of the file and a word on the variable", clients, err, told.String())
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package canary_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/stats"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/internal/secretform"
)

// The secrets. Each has a word that would be found if only that were shown, and characters that encodings change.
const (
	password      = "Canary1Password/+@: %é"
	apiKey        = "Canary2ApiKey/+@:%"
	ownToken      = "Canary3.OwnToken/+="
	givenToken    = "Canary4.GivenToken/+="
	certPassword  = "Canary5CertPassword/+@"
	proxyPassword = "Canary6ProxyPassword/+@"
	wrongPassword = "Canary7WrongPassword/+@"
)

// secrets are all of them, and their words.
func secrets() []string {
	all := []string{password, apiKey, ownToken, givenToken, certPassword, proxyPassword, wrongPassword}
	for _, s := range all {
		all = append(all, strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune("/+@: %é=", r) })[0])
	}
	return all
}

// limit bounds every wait. It is long, as it strikes only when a test fails.
const limit = 30 * time.Second

// everything takes in all that is written. It is the log of grpc-go too.
var everything = &record{}

func TestMain(m *testing.M) {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy"} {
		if err := os.Unsetenv(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	grpclog.SetLoggerV2(grpclog.NewLoggerV2WithVerbosity(everything, everything, everything, 99))
	goleak.VerifyTestMain(m)
}

// record is a text that grows.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

// take returns the text and forgets it.
func (r *record) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := r.text.String()
	r.text.Reset()
	return text
}

// values renders each value in every way that a program might.
func (r *record) values(all ...any) {
	for _, v := range all {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(r, verb+"\n", v)
		}
		if encoded, err := json.Marshal(v); err == nil {
			fmt.Fprintf(r, "%s\n", encoded)
		}
		logger := r.logger()
		logger.Info("value", "v", v)
		if err, ok := v.(error); ok {
			r.tree(err)
		}
	}
}

// tree renders the causes of an error.
func (r *record) tree(err error) {
	switch u := err.(type) { //nolint:errorlint // it walks the tree
	case interface{ Unwrap() error }:
		if cause := u.Unwrap(); cause != nil {
			r.values(cause)
		}
	case interface{ Unwrap() []error }:
		for _, cause := range u.Unwrap() {
			r.values(cause)
		}
	}
}

// logger writes everything in the two forms of slog.
func (r *record) logger() *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelDebug}
	return slog.New(both{slog.NewTextHandler(r, options), slog.NewJSONHandler(r, options)})
}

// both passes records on to two handlers.
type both [2]slog.Handler

func (b both) Enabled(context.Context, slog.Level) bool { return true }

func (b both) Handle(ctx context.Context, r slog.Record) error {
	return errors.Join(b[0].Handle(ctx, r), b[1].Handle(ctx, r))
}

func (b both) WithAttrs(attrs []slog.Attr) slog.Handler {
	return both{b[0].WithAttrs(attrs), b[1].WithAttrs(attrs)}
}

func (b both) WithGroup(name string) slog.Handler {
	return both{b[0].WithGroup(name), b[1].WithGroup(name)}
}

// traces renders what grpc-go tells a stats handler, which is what tracing is made of.
type traces struct{ to *record }

func (t traces) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	t.to.values(*info)
	return ctx
}

func (t traces) HandleRPC(_ context.Context, s stats.RPCStats) {
	if _, end := s.(*stats.End); end {
		return // its error is the server's text as it came: grpc-go tells it to the program without asking anybody
	}
	fmt.Fprintf(t.to, "%T %+v\n", s, s)
}

func (t traces) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (t traces) HandleConn(context.Context, stats.ConnStats) {}

// check looks for the secrets in what was written since the last look.
func check(t *testing.T) {
	t.Helper()
	text := everything.take()
	if len(text) == 0 {
		t.Error("nothing was written: there is nothing to look at")
	}
	found := 0
	for _, line := range strings.Split(text, "\n") {
		if secretform.Contains(line, secrets()...) && found < 5 {
			found++
			t.Errorf("a secret shows in %q", line)
		}
	}
	t.Logf("looked at %d bytes", len(text))
}

// watch makes a Conn of which everything is written down, until it is ready or has backed off; then until each of the
// functions has been called with it.
func watch(t *testing.T, connection string, options []evenkeel.Option, use ...func(*evenkeel.Conn)) {
	t.Helper()
	turns := make(chan struct{}, 64)
	options = append(options, evenkeel.WithLogger(everything.logger()), evenkeel.WithEvents(func(e evenkeel.Event) {
		everything.values(e, &e)
		if e.Kind == evenkeel.EventConnected || e.Kind == evenkeel.EventBackingOff || e.Kind == evenkeel.EventClosed {
			turns <- struct{}{}
		}
	}))
	conn, err := evenkeel.New(connection, options...)
	if err != nil {
		everything.values(err)
		if len(use) > 0 {
			t.Errorf("nothing was tried: %v", err)
		}
		return
	}
	select {
	case <-turns:
	case <-time.After(limit):
		t.Error("neither connected nor failed")
	}
	for _, f := range use {
		f(conn)
	}
	status := conn.Status()
	everything.values(status, &status, conn.Server(), conn.State())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	everything.values(conn.WaitReady(ctx), conn.Reselect(ctx))
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	everything.values(conn.Status(), conn)
}

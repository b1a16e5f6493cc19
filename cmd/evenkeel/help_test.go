// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/evenkeel-go/evenkeel"
)

// helpOf returns what a command says with --help.
func helpOf(t *testing.T, command ...string) string {
	t.Helper()
	got := call(t, nil, "", append(command, "--help")...)
	if got.status != exitDone || got.stderr != "" {
		t.Fatalf("%v --help: status %d, %s", command, got.status, got.stderr)
	}
	return got.stdout
}

// allHelp is the help of every command, by the words that call it.
func allHelp(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{"evenkeel": helpOf(t)}
	for _, cmd := range newRoot(newConsole(nil, nil, io.Discard, io.Discard)).Commands() {
		texts[cmd.Name()] = helpOf(t, cmd.Name())
		for _, sub := range cmd.Commands() {
			texts[cmd.Name()+" "+sub.Name()] = helpOf(t, cmd.Name(), sub.Name())
		}
	}
	return texts
}

func TestHelpFitsATerminal(t *testing.T) {
	t.Parallel()
	const terminal = 80
	for name, text := range allHelp(t) {
		for line := range strings.Lines(text) {
			if w := ansi.StringWidth(strings.TrimSuffix(line, "\n")); w > terminal {
				t.Errorf("%s --help: a line of %d columns, want %d at most: %s", name, w, terminal, line)
			}
		}
	}
}

// TestHelpBreaksNoNames looks for lines that end within a name, such as that of a flag.
func TestHelpBreaksNoNames(t *testing.T) {
	t.Parallel()
	for name, text := range allHelp(t) {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); strings.HasSuffix(line, "-") {
				t.Errorf("%s --help: a line ends within a name: %s", name, line)
			}
		}
	}
}

// fieldsOf returns the names of the fields of a JSON object, and those that are left out when they have no value.
func fieldsOf(object any) (all []string, optional map[string]bool) {
	optional = make(map[string]bool)
	of := reflect.TypeOf(object)
	for i := range of.NumField() {
		name, rest, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		all = append(all, name)
		optional[name] = rest == "omitempty"
	}
	return all, optional
}

// TestHelpNamesTheFieldsOfJSON holds the help against the objects that are printed.
func TestHelpNamesTheFieldsOfJSON(t *testing.T) {
	t.Parallel()
	for command, objects := range map[string][]any{
		"demo":    {demoReport{}, phaseReport{}},
		"serve":   {serveReport{}},
		"resolve": {resolvedEndpoint{}, watchEvent{}},
		"probe":   {probeReport{}},
		"connect": {connectEvent{}, connectSummary{}},
		"version": {versionReport{}},
		"shed":    {shedReport{}},

		"bench fleet": {benchRow{}},
		"simulate":    {suiteRow{}, scenarioRow{}},
	} {
		help := helpOf(t, strings.Fields(command)...)
		if got := strings.Join(strings.Fields(help), " "); !strings.Contains(got, "fields without a value are left out") {
			t.Errorf("%s --help does not say what becomes of fields without a value", command)
		}
		for _, object := range objects {
			fields, optional := fieldsOf(object)
			for i, name := range fields {
				if !regexp.MustCompile(`(?m)^ +` + name + ` +\S`).MatchString(help) {
					t.Errorf("%s --help does not explain the field %s", command, name)
				}
				// What can be nil would be printed as null.
				if kind := reflect.TypeOf(object).Field(i).Type.Kind(); kind == reflect.Pointer && !optional[name] {
					t.Errorf("%s: the field %s can be null", command, name)
				}
			}
		}
	}
}

func TestHelpNamesAllEvents(t *testing.T) {
	t.Parallel()
	help := strings.Join(strings.Fields(helpOf(t, "connect")), " ")
	kinds := 0
	for kind := evenkeel.EventKind(0); kind.String() != fmt.Sprintf("event %d", kind); kind++ {
		kinds++
		if !regexp.MustCompile(`event resolving[a-z, ]*\b`+kind.String()+`\b`).MatchString(help) && kind != evenkeel.EventResolving {
			t.Errorf("connect --help does not list the event %q", kind)
		}
	}
	if kinds < int(evenkeel.EventPanicked) {
		t.Errorf("got %d kinds of events, want those of the library", kinds)
	}
}

// TestHelpTellsTheLimits tries the limits that the help tells.
func TestHelpTellsTheLimits(t *testing.T) {
	t.Parallel()
	tests := []struct {
		command, says string
		tooFar        []string
	}{
		{command: "connect", says: "the number of clients, 1 to 10000", tooFar: []string{"--clients", "10001", "chronicle://a"}},
		{command: "connect", says: "up to 1m", tooFar: []string{"--jitter", "61s", "chronicle://a"}},
		{command: "probe", says: "at least 100ms", tooFar: []string{"--watch", "--interval", "99ms", "chronicle://a"}},
		{command: "bench fleet", says: "the number of clients, 1 to 10000", tooFar: []string{"--clients", "10001"}},
		{command: "bench fleet", says: "the number of servers, 1 to 64", tooFar: []string{"--servers", "65"}},
		{command: "bench fleet", says: "up to 1m", tooFar: []string{"--jitter", "61s"}},
		{command: "bench fleet", says: "by 1.5s at most", tooFar: []string{"--delay", "1501ms"}},
		{command: "bench fleet", says: "up to 100", tooFar: []string{"--repeats", "101"}},
		{command: "shed", says: "up to 24h", tooFar: []string{"--count", "1", "--over", "25h", "a"}},
		{command: "demo", says: "the number of servers, 2 to 9", tooFar: []string{"--servers", "10", "--clients", "200"}},
		{command: "demo", says: "2 for each server to 200 in all", tooFar: []string{"--clients", "201"}},
		{command: "demo", says: "2 for each server to 200 in all", tooFar: []string{"--servers", "4", "--clients", "7"}},
	}
	for _, tt := range tests {
		if help := strings.Join(strings.Fields(helpOf(t, strings.Fields(tt.command)...)), " "); !strings.Contains(help, tt.says) {
			t.Errorf("%s --help does not say %q", tt.command, tt.says)
		}
		if got := call(t, nil, "", append(strings.Fields(tt.command), tt.tooFar...)...); got.status != exitUsage {
			t.Errorf("%s %v: status %d, want %d: %s", tt.command, tt.tooFar, got.status, exitUsage, got.stderr)
		}
	}
}

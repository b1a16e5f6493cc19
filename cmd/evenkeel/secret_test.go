// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const planted = "s3cr3t-marker"

// TestNoSecretIsShown puts a secret wherever a user may put one, rightly or by mistake.
func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "string")
	if err := os.WriteFile(file, []byte("chronicle://app:"+planted+"@"), 0o600); err != nil {
		t.Fatal(err)
	}
	good, bad := "chronicle://app:"+planted+"@127.0.0.1:1", "chronicle://app:"+planted+"/@127.0.0.1:1"
	tests := []struct {
		name string
		env  []string
		in   string
		args []string
	}{
		{name: "good argument", args: []string{"resolve", good}},
		{name: "good argument to probe", args: []string{"probe", good}},
		{name: "good argument to connect", args: []string{"connect", "--for", "1s", good}},
		{name: "bad argument", args: []string{"resolve", bad}},
		{name: "bad variable", args: []string{"resolve"}, env: []string{variable + "=" + bad}},
		{name: "bad standard input", args: []string{"resolve", "-"}, in: bad},
		{name: "bad file", args: []string{"resolve", "--file", file}},
		{name: "api key", args: []string{"connect", "--for", "1s", "chronicle://127.0.0.1:1/?apiKey=" + planted}},
		{name: "unknown option", args: []string{"resolve", "chronicle://a/?secret=" + planted}},
		{name: "instead of the command", args: []string{good}},
		{name: "in front of the command", args: []string{good, "resolve"}},
		{name: "after help", args: []string{"help", good}},
		{name: "where no argument belongs", args: []string{"demo", good}},
		{name: "twice", args: []string{"resolve", good, bad}},
		{name: "as a flag", args: []string{"resolve", "--" + good}},
		{name: "as a short flag", args: []string{"resolve", "-" + planted}},
		{name: "as a number", args: []string{"connect", "--clients", good}},
		{name: "as a duration", args: []string{"connect", "--for=" + good}},
		{name: "as a switch", args: []string{"connect", "--json=" + good}},
		{name: "as a file", args: []string{"resolve", "--file", good}},
		{name: "as an address", args: []string{"serve", "--listen", good}},
		{name: "as a bare address", args: []string{"serve", "--listen", planted}},
		{name: "in a target", args: []string{"resolve", "dns://app:" + planted + "@127.0.0.1:1/name"}},
		{name: "in the options of a target", args: []string{"resolve", "srv:///_a._tcp.name?apiKey=" + planted}},
		{name: "as a port of a target", args: []string{"resolve", "dns:///name:" + planted}},
		{name: "as a name server", args: []string{"resolve", "dns://" + planted + "]/name"}},
		{name: "as a malformed flag", args: []string{"resolve", "--=" + planted}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := call(t, tt.env, tt.in, tt.args...)
			if strings.Contains(got.stdout+got.stderr, planted) {
				t.Errorf("the secret is shown:\n%s\n%s", got.stdout, got.stderr)
			}
			if got.status != exitDone && got.stderr == "" {
				t.Errorf("status %d without a word", got.status)
			}
		})
	}
}

// FuzzResolve reads connection strings of strangers: it must not panic, must say something when it fails, and must not
// show the password.
func FuzzResolve(f *testing.F) {
	for _, tail := range []string{"@a", "@a,b:1", "/@a", "@a/?x=y", "%zz@a", "@[::1]:5", "\n@a", ""} {
		f.Add(tail)
	}
	f.Fuzz(func(t *testing.T, tail string) {
		got := call(t, nil, "chronicle://app:"+planted+tail, "resolve", "-")
		if strings.Contains(got.stdout+got.stderr, planted) {
			t.Errorf("%q: the secret is shown:\n%s\n%s", tail, got.stdout, got.stderr)
		}
		if (got.status == exitDone) != (got.stderr == "") || (got.status == exitDone) == (got.stdout == "") {
			t.Errorf("%q: status %d with %q and %q", tail, got.status, got.stdout, got.stderr)
		}
	})
}

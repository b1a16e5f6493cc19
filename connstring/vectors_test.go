// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package connstring_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel-go/evenkeel/connstring"
)

// validVector is one entry of testdata/valid.json.
type validVector struct {
	Name       string
	Input      string
	Parsed     parsedVector
	Unredacted string
	Redacted   string
}

// parsedVector is a ConnString without secrets that hide.
type parsedVector struct {
	Hosts                                []connstring.Host
	SRV, AuthNone                        bool
	SkipTLSValidation                    bool
	SkipCompatibilityCheck               bool
	AuthMode                             connstring.AuthMode
	Username, Password, APIKey           string
	LoadBalancer, SRVNameServer          string
	CertificatePath, CertificatePassword string
}

// invalidVector is one entry of testdata/invalid.json.
type invalidVector struct {
	Name   string
	Input  string
	Code   connstring.Code
	Part   connstring.Part
	Offset int
	Index  int
	Option string
	Text   string
}

// readVectors reads a file of testdata into a slice of vectors.
func readVectors[T any](tb testing.TB, file string) []T {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		tb.Fatal(err)
	}
	var vectors []T
	if err := json.Unmarshal(data, &vectors); err != nil {
		tb.Fatalf("%s: %v", file, err)
	}
	if len(vectors) == 0 {
		tb.Fatalf("%s has no vectors", file)
	}
	return vectors
}

// revealed copies everything out of a ConnString.
func revealed(c *connstring.ConnString) parsedVector {
	return parsedVector{
		Hosts: c.Hosts, SRV: c.SRV, AuthNone: c.AuthNone, AuthMode: c.AuthMode(),
		SkipTLSValidation: c.SkipTLSValidation, SkipCompatibilityCheck: c.SkipCompatibilityCheck,
		Username: c.Username, Password: c.Password.Reveal(), APIKey: c.APIKey.Reveal(),
		LoadBalancer: c.LoadBalancer, SRVNameServer: c.SRVNameServer,
		CertificatePath: c.CertificatePath, CertificatePassword: c.CertificatePassword.Reveal(),
	}
}

func TestValidVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors[validVector](t, "valid.json") {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			got, err := connstring.Parse(v.Input)
			if err != nil {
				t.Fatalf("Parse(%q): got error %v, want none", v.Input, err)
			}
			if diff := cmp.Diff(v.Parsed, revealed(got)); diff != "" {
				t.Errorf("Parse(%q) (-want +got):\n%s", v.Input, diff)
			}
			if full := got.Unredacted(); full != v.Unredacted {
				t.Errorf("Unredacted: got %q, want %q", full, v.Unredacted)
			}
			if s := got.String(); s != v.Redacted {
				t.Errorf("String: got %q, want %q", s, v.Redacted)
			}
			requireRoundTrip(t, got)
		})
	}
}

func TestInvalidVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors[invalidVector](t, "invalid.json") {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			got, err := connstring.Parse(v.Input)
			e, ok := errors.AsType[*connstring.ParseError](err)
			if !ok {
				t.Fatalf("Parse(%q): got %v and error %v, want a *ParseError", v.Input, got, err)
			}
			found := invalidVector{
				Name: v.Name, Input: v.Input,
				Code: e.Code, Part: e.Part, Offset: e.Offset, Index: e.Index, Option: e.Option, Text: e.Error(),
			}
			if diff := cmp.Diff(v, found); diff != "" {
				t.Errorf("Parse(%q) (-want +got):\n%s", v.Input, diff)
			}
			if got != nil {
				t.Errorf("Parse(%q): got a value beside the error", v.Input)
			}
		})
	}
}

// TestEveryCodeHasAVector keeps the vectors complete. Strings that are too long have their own test, as they would
// blow up the file.
func TestEveryCodeHasAVector(t *testing.T) {
	t.Parallel()
	seen := map[connstring.Code]bool{connstring.CodeTooLong: true}
	for _, v := range readVectors[invalidVector](t, "invalid.json") {
		seen[v.Code] = true
	}
	codes := declaredCodes(t)
	for _, code := range codes {
		if !seen[code] {
			t.Errorf("no vector for code %q", code)
		}
	}
	if got, want := len(seen), len(codes); got != want {
		t.Errorf("vectors have %d codes, want the %d that exist", got, want)
	}
}

// declaredCodes returns every Code that error.go declares, read from the source so that none can be forgotten.
func declaredCodes(tb testing.TB) []connstring.Code {
	tb.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "error.go", nil, 0)
	if err != nil {
		tb.Fatal(err)
	}
	var codes []connstring.Code
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		kind, typed := spec.Type.(*ast.Ident)
		literal, basic := spec.Values[0].(*ast.BasicLit)
		if !typed || !basic || kind.Name != "Code" {
			return true
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			tb.Fatal(err)
		}
		codes = append(codes, connstring.Code(text))
		return true
	})
	return codes
}

// requireRoundTrip fails unless the full form of c parses to an equal value, and New makes the same of its parts.
func requireRoundTrip(tb failer, c *connstring.ConnString) {
	tb.Helper()
	again, err := connstring.Parse(c.Unredacted())
	if err != nil {
		tb.Fatalf("parsing the full form again: %v", err)
	}
	if !again.Equal(c) {
		tb.Fatalf("the full form parses to %v, want %v", again, c)
	}
	if again.Unredacted() != c.Unredacted() {
		tb.Fatal("the full form of the full form differs")
	}
	built, err := connstring.New(*c)
	if err != nil {
		tb.Fatalf("building from the parts of %v: %v", c, err)
	}
	if !built.Equal(c) {
		tb.Fatalf("built %v, want %v", built, c)
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package connstring_test

import (
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel-go/evenkeel/connstring"
)

// packageDoc is what go doc shows of the package.
func packageDoc(t *testing.T) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return file.Doc.Text()
}

// documentedOptions are the names in the first column of the table in the package's doc.
func documentedOptions(t *testing.T) []string {
	t.Helper()
	_, table, ok := strings.Cut(packageDoc(t), "\tname ")
	if !ok {
		t.Fatal("the package's doc has no table of options")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	var names []string
	for line := range strings.Lines(table) {
		if row, ok := strings.CutPrefix(line, "\t"); ok && !strings.HasPrefix(row, " ") {
			names = append(names, strings.Fields(row)[0])
		}
	}
	return names
}

func TestTheDocHasEveryOptionByItsNameInAString(t *testing.T) {
	t.Parallel()
	if got, want := documentedOptions(t), connstring.OptionNamesForTest(); !slices.Equal(got, want) {
		t.Errorf("the table of the package's doc has %q, want every option that is known: %q", got, want)
	}
}

func TestTheDocsExampleIsWhatUnredactedWrites(t *testing.T) {
	t.Parallel()
	c, err := connstring.New(connstring.ConnString{
		Hosts:    []connstring.Host{{Name: "node1"}, {Name: "node2", Port: 35001}},
		Username: "app", Password: connstring.NewSecret("p@ss/w:rd"),
		LoadBalancer: connstring.Random,
	})
	if err != nil {
		t.Fatal(err)
	}
	if doc, want := packageDoc(t), c.Unredacted(); !strings.Contains(doc, "\t"+want+"\n") {
		t.Errorf("the package's doc does not have the line %s", want)
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// The rules of the house that no linter knows. They read the source of the whole module, whatever the build tags say.

const modulePath = "github.com/evenkeel-go/evenkeel"

// walls says which of our packages a room may import outside its tests: what it is made of, and nothing that is made
// of it. A room that is not listed may import any. Packages under internal are open to all, and import no room but
// discover, whose values every room hands on.
func walls() map[string][]string {
	return map[string][]string{
		"connstring": {},
		"discover":   {},
		"balance":    {"discover"},
		"credential": {},
		"contract":   {"contract"},
		"channel":    {"channel", "connstring", "discover", "balance"},
		"server":     {"contract", "connstring", "discover", "credential"},
		"sim":        {"balance", "discover"},
		"internal":   {"discover"},
		".":          {"connstring", "discover", "balance", "credential", "contract"},
	}
}

// sourceFile is one Go file of the module.
type sourceFile struct {
	path  string // with slashes, from the root of the module
	ast   *ast.File
	lines *token.FileSet
}

func (f sourceFile) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// at returns "file:line" of a node.
func (f sourceFile) at(node ast.Node) string {
	return f.path + ":" + strconv.Itoa(f.lines.Position(node.Pos()).Line)
}

// imports returns what the file imports: the path of each package by the name it goes by in the file.
func (f sourceFile) imports(tb testing.TB) map[string]string {
	tb.Helper()
	found := make(map[string]string)
	for _, spec := range f.ast.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			tb.Fatal(err)
		}
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		found[name] = imported
	}
	return found
}

// sourceFiles parses every Go file of the module. Nested modules and test data are not part of it.
func sourceFiles(tb testing.TB) []sourceFile {
	tb.Helper()
	var files []sourceFile
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return enter(name)
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		lines := token.NewFileSet()
		parsed, err := parser.ParseFile(lines, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, sourceFile{path: filepath.ToSlash(name), ast: parsed, lines: lines})
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	if len(files) < 10 {
		tb.Fatalf("found %d Go files: the test does not run in the root of the module", len(files))
	}
	return files
}

// enter returns fs.SkipDir for a folder whose Go files are not of this module.
func enter(name string) error {
	base := filepath.Base(name)
	if name == "." {
		return nil
	}
	if base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return fs.SkipDir
	}
	nested, err := filepath.Glob(filepath.Join(name, "go.mod"))
	if err != nil {
		return err
	}
	if len(nested) > 0 {
		return fs.SkipDir
	}
	return nil
}

func TestEveryPackageHasItsDocInDocGo(t *testing.T) {
	t.Parallel()
	documented := make(map[string]bool)
	for _, f := range sourceFiles(t) {
		if f.isTest() || ast.IsGenerated(f.ast) {
			continue
		}
		// A command that is one file may have its comment there.
		inPlace := path.Base(f.path) == "doc.go" || f.ast.Name.Name == "main"
		if f.ast.Doc != nil && !inPlace {
			t.Errorf("%s: the package is documented here, want doc.go", f.path)
		}
		folder := path.Dir(f.path)
		documented[folder] = documented[folder] || f.ast.Doc != nil && inPlace
	}
	for _, folder := range slices.Sorted(maps.Keys(documented)) {
		if !documented[folder] {
			t.Errorf("%s: no package comment in doc.go", folder)
		}
	}
}

func TestRoomsKeepTheirWalls(t *testing.T) {
	t.Parallel()
	for _, f := range sourceFiles(t) {
		room, _, nested := strings.Cut(f.path, "/")
		if !nested {
			room = "."
		}
		allowed, walled := walls()[room]
		if f.isTest() || !walled {
			continue
		}
		for _, imported := range f.imports(t) {
			ours, is := strings.CutPrefix(imported, modulePath)
			ours = strings.TrimPrefix(ours, "/")
			other, _, _ := strings.Cut(ours, "/")
			if !is || other == "internal" || slices.Contains(allowed, other) {
				continue
			}
			t.Errorf("%s imports %s, which is on the other side of a wall", f.path, imported)
		}
	}
}

func TestEveryFileBeginsWithItsLicence(t *testing.T) {
	t.Parallel()
	want := []string{"// SPDX-FileCopyrightText: The Evenkeel authors", "// SPDX-License-Identifier: MIT"}
	for _, f := range sourceFiles(t) {
		if ast.IsGenerated(f.ast) {
			continue
		}
		var got []string
		if len(f.ast.Comments) > 0 && f.lines.Position(f.ast.Comments[0].Pos()).Line == 1 {
			for _, comment := range f.ast.Comments[0].List {
				got = append(got, comment.Text)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got first lines %q, want %q", f.path, got, want)
		}
	}
}

// TestDocCommentsFitOnAScreen bounds the lines of doc comments. What go doc prints as it stands in the source, which is all
// that documents a field, a constant or a method of an interface, is bounded closer: the rest is wrapped anew.
func TestDocCommentsFitOnAScreen(t *testing.T) {
	t.Parallel()
	const wrapped, verbatim = 130, 120
	for _, f := range sourceFiles(t) {
		if ast.IsGenerated(f.ast) {
			continue
		}
		check := func(group *ast.CommentGroup, most int) {
			if group == nil {
				return
			}
			for _, c := range group.List {
				width := f.lines.Position(c.Pos()).Column - 1 + utf8.RuneCountInString(c.Text)
				if width > most && !strings.HasPrefix(c.Text, "//nolint:") {
					t.Errorf("%s: the line has %d columns, want %d at most", f.at(c), width, most)
				}
			}
		}
		check(f.ast.Doc, wrapped)
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch d := n.(type) {
			case *ast.FuncDecl:
				check(d.Doc, wrapped)
			case *ast.GenDecl:
				check(d.Doc, wrapped)
			case *ast.TypeSpec:
				check(d.Doc, wrapped)
			case *ast.ValueSpec:
				check(d.Doc, verbatim)
				check(d.Comment, verbatim)
			case *ast.Field:
				check(d.Doc, verbatim)
				check(d.Comment, verbatim)
			}
			return true
		})
	}
}

// TestTestsDoNotSleep allows time.Sleep in a test only inside the bubble of testing/synctest, where it takes no time.
func TestTestsDoNotSleep(t *testing.T) {
	t.Parallel()
	for _, f := range sourceFiles(t) {
		if !f.isTest() {
			continue
		}
		imports := f.imports(t)
		if slices.Contains(slices.Collect(maps.Values(imports)), "testing/synctest") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if isCall(n, imports, "time", "Sleep") {
				t.Errorf("%s: time.Sleep outside testing/synctest: wait for what is to happen", f.at(n))
			}
			return true
		})
	}
}

// TestPackagesWithGoroutinesLookForLeaks wants goleak in the TestMain of every package that starts goroutines.
func TestPackagesWithGoroutinesLookForLeaks(t *testing.T) {
	t.Parallel()
	starts := make(map[string]string) // folder to the first go statement
	checks := make(map[string]bool)
	for _, f := range sourceFiles(t) {
		folder := path.Dir(f.path)
		if f.isTest() {
			imports := f.imports(t)
			ast.Inspect(f.ast, func(n ast.Node) bool {
				checks[folder] = checks[folder] || isCall(n, imports, "go.uber.org/goleak", "VerifyTestMain")
				return true
			})
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if statement, ok := n.(*ast.GoStmt); ok && starts[folder] == "" {
				starts[folder] = f.at(statement)
			}
			return true
		})
	}
	for _, folder := range slices.Sorted(maps.Keys(starts)) {
		if !checks[folder] && !strings.HasPrefix(folder, "examples/") {
			t.Errorf("%s starts a goroutine, and no TestMain in %s calls goleak.VerifyTestMain", starts[folder], folder)
		}
	}
}

// isCall says whether a node calls a function of an imported package.
func isCall(n ast.Node, imports map[string]string, imported, function string) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != function {
		return false
	}
	name, ok := selector.X.(*ast.Ident)
	return ok && imports[name.Name] == imported
}

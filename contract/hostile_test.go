// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package contract_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/evenkeel-go/evenkeel/contract"
)

// wrapped puts bytes into a field, some times over.
func wrapped(raw []byte, number protowire.Number, times int) []byte {
	for range times {
		raw = protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), raw)
	}
	return raw
}

// setOf marshals files, valid or not.
func setOf(t testing.TB, files ...*descriptorpb.FileDescriptorProto) []byte {
	t.Helper()
	raw, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: files})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// nested is a message in a message, so many times.
func nested(depth int) *descriptorpb.DescriptorProto {
	m := messageOf("M")
	for range depth - 1 {
		m = &descriptorpb.DescriptorProto{Name: proto.String("M"), NestedType: []*descriptorpb.DescriptorProto{m}}
	}
	return m
}

func fileOf(messages ...*descriptorpb.DescriptorProto) *descriptorpb.FileDescriptorProto {
	return &descriptorpb.FileDescriptorProto{Name: proto.String("x.proto"), Package: proto.String("x"), MessageType: messages}
}

// copies are a file's messages with names of their own.
func copies(n int) []*descriptorpb.DescriptorProto {
	var all []*descriptorpb.DescriptorProto
	for i := range n {
		all = append(all, messageOf(fmt.Sprintf("M%d", i)))
	}
	return all
}

func TestHostileDescriptorSetsAreRefusedWithAReason(t *testing.T) {
	t.Parallel()
	twice := func(f *descriptorpb.FileDescriptorProto) *descriptorpb.FileDescriptorProto {
		again := proto.CloneOf(f)
		again.Name = proto.String("again.proto")
		return again
	}
	methods := shop()
	methods.Service[0].Method[1].Name = methods.Service[0].Method[0].Name
	tests := []struct {
		name string
		set  []byte
		want string
	}{
		{"no descriptor set", []byte("GET / HTTP/1.1\r\n"), "cannot be read"},
		{"cut off", setOf(t, shop())[:100], "cannot be read"},
		{"too large", make([]byte, contract.MaxSize+1), "more than 4194304 bytes"},
		{"nested too deep", setOf(t, fileOf(nested(33))), "nested more than 32 deep"},
		{"nested without names", wrapped(wrapped(wrapped(nil, 3, 5000), 4, 1), 1, 1), "no name"},
		{"too many parts of a name", setOf(t, &descriptorpb.FileDescriptorProto{Package: proto.String(strings.Repeat("p.", 50) + "p"), MessageType: copies(1)}), "more than 48 parts"},
		{"too many files", bytes.Repeat([]byte{0x0a, 0x00}, 40_000), "more than 32768 elements"},
		{"too many messages", setOf(t, fileOf(copies(40_000)...)), "more than 32768 elements"},
		{"a million empty files and messages", wrapped(bytes.Repeat([]byte{0x22, 0x00}, 1_000_000), 1, 1), "no name"},
		{"too many fields", setOf(t, fileOf(messageOf("M", make([]*descriptorpb.FieldDescriptorProto, 40_000)...))), "more than 32768 elements"},
		{"a long package", setOf(t, &descriptorpb.FileDescriptorProto{Package: proto.String(strings.Repeat("p.", 300)), MessageType: copies(1)}), "longer than 512 bytes"},
		{"a long name", setOf(t, fileOf(messageOf(strings.Repeat("n", 600)))), "longer than 512 bytes"},
		{"a long type", setOf(t, fileOf(messageOf("M", fieldOf("f", 1, typeGroup, strings.Repeat("n", 600))))), "longer than 512 bytes"},
		{"a long oneof", setOf(t, fileOf(&descriptorpb.DescriptorProto{Name: proto.String("M"), OneofDecl: []*descriptorpb.OneofDescriptorProto{{Name: proto.String(strings.Repeat("n", 600))}}})), "longer than 512 bytes"},
		{"a message twice", setOf(t, fileOf(messageOf("M"), messageOf("M"))), "x.M is defined twice"},
		{"a message in two files", setOf(t, fileOf(messageOf("M")), twice(fileOf(messageOf("M")))), "x.M is defined twice"},
		{"a service twice", setOf(t, changed(func(f *descriptorpb.FileDescriptorProto) { f.Service[1].Name = f.Service[0].Name })), "shop.Sales is defined twice"},
		{"a method twice", setOf(t, methods), "shop.Sales/Buy is defined twice"},
		{"an enum twice", setOf(t, changed(func(f *descriptorpb.FileDescriptorProto) { f.EnumType = append(f.EnumType, f.EnumType[0]) })), "shop.Colour is defined twice"},
		{"a name for a terminal", setOf(t, fileOf(messageOf("\x1b[2J"), messageOf("\x1b[2J"))), "x.?[2J is defined twice"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := contract.Parse(tt.set)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestOddDescriptorSetsAreRead(t *testing.T) {
	t.Parallel()
	circle := fileOf(
		messageOf("A", fieldOf("b", 1, typeMessage, ".x.B")), messageOf("B", fieldOf("a", 1, typeMessage, ".x.A")))
	circle.Dependency = []string{"x.proto"} // itself
	circle.Service = []*descriptorpb.ServiceDescriptorProto{{
		Name: proto.String("S"), Method: []*descriptorpb.MethodDescriptorProto{methodOf("M", ".x.A", ".x.B")},
	}}
	relative := proto.CloneOf(shop())
	for _, m := range relative.Service[0].Method[:2] {
		m.InputType, m.OutputType = proto.String("Order"), proto.String("shop.Item")
	}
	relative.MessageType[1].Field[4].TypeName = proto.String("Box")
	unknown := protowire.AppendVarint(protowire.AppendTag(setOf(t, shop()), 99, protowire.VarintType), 1)
	unknown = protowire.AppendTag(protowire.AppendTag(unknown, 98, protowire.StartGroupType), 98, protowire.EndGroupType)
	wellKnown := fileOf(messageOf("Empty"))
	wellKnown.Name = proto.String("google/protobuf/empty.proto")
	tests := []struct {
		name     string
		set      []byte
		services int
	}{
		{"nothing", nil, 0},
		{"a missing import", setOf(t, shop()), 2},
		{"circles", setOf(t, circle), 1},
		{"the same file twice", append(setOf(t, shop()), setOf(t, shop())...), 2},
		{"unknown fields", unknown, 2},
		{"relative names", setOf(t, relative), 2},
		{"protobuf's own file in two versions", setOf(t, wellKnown, proto.CloneOf(wellKnown), changed(func(f *descriptorpb.FileDescriptorProto) {
			f.Name = proto.String("google/protobuf/empty.proto")
		})), 0},
		{"the deepest nesting", setOf(t, fileOf(nested(32))), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := contract.Parse(tt.set)
			if err != nil {
				t.Fatalf("parse: %v", err)
			}
			if got := len(c.Services()); got != tt.services {
				t.Errorf("services: got %d, want %d", got, tt.services)
			}
			if got := contract.Compare(c, c, contract.AllServices); !got.Compatible() {
				t.Errorf("it does not fit itself: %s", found(got))
			}
			again, err := contract.Parse(c.DescriptorSet())
			if err != nil || !bytes.Equal(again.DescriptorSet(), c.DescriptorSet()) {
				t.Errorf("what it kept is not what it keeps of that: %v", err)
			}
		})
	}
}

func TestRelativeNamesMeanWhatIsNearest(t *testing.T) {
	t.Parallel()
	relative := changed(func(f *descriptorpb.FileDescriptorProto) {
		f.Service[0].Method[0].InputType, f.Service[0].Method[0].OutputType = proto.String("Order"), proto.String("shop.Item")
		f.MessageType[1].Field[2].TypeName = proto.String("Colour")
		f.MessageType[1].Field[4].TypeName = proto.String("Box")
		f.MessageType[1].Field[5].TypeName = proto.String("Item.TagsEntry")
	})
	if got := contract.Compare(parsed(t, shop()), parsed(t, relative), contract.AllServices); !got.Compatible() {
		t.Errorf("got %s, want the same contract", found(got))
	}
}

// What is costly to read is refused before it costs: the time and the memory for the worst that fits in are bounded.
//
// It runs alone: it counts the memory of the process.
func TestTheWorstDescriptorSetsCostLittle(t *testing.T) {
	long := strings.Repeat("p", 400)
	var refs []*descriptorpb.FieldDescriptorProto
	for i := range 30_000 {
		refs = append(refs, fieldOf("f", int32(i+1), typeMessage, "N"))
	}
	deepPackage := &descriptorpb.FileDescriptorProto{
		Package:     proto.String(strings.TrimSuffix(strings.Repeat("p.", 46), ".")),
		MessageType: []*descriptorpb.DescriptorProto{messageOf("M", refs...)},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("S"), Method: []*descriptorpb.MethodDescriptorProto{
			methodOf("M", "M", "M"),
		}}},
	}
	groups := bytes.Repeat(protowire.AppendTag(nil, 9, protowire.StartGroupType), 9000)
	groups = append(groups, bytes.Repeat(protowire.AppendTag(nil, 9, protowire.EndGroupType), 9000)...)
	sets := map[string][]byte{
		"many names":          setOf(t, &descriptorpb.FileDescriptorProto{Package: proto.String(long), MessageType: copies(32_000)}),
		"references in scope": setOf(t, deepPackage),
		"groups in groups":    bytes.Repeat(groups, 200),
		"files of one path":   bytes.Repeat(wrapped(wrapped(make([]byte, 100), 12, 1), 1, 1), 32_000),
		"empty files":         bytes.Repeat([]byte{0x0a, 0x00}, contract.MaxSize/2),
		"one long file":       wrapped(bytes.Repeat([]byte{0x60, 0x00}, contract.MaxSize/2-10), 1, 1),
	}
	for name, set := range sets {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			c, err := contract.Parse(set)
			if err == nil {
				contract.Compare(c, c, contract.AllServices)
			}
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
			t.Logf("%d KiB: %v, %d MiB, %v", len(set)>>10, took, allocated, err)
			if took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			if allocated > 64 {
				t.Errorf("it allocated %d MiB, want 64 at most", allocated)
			}
		})
	}
}

func TestHostileSchemasAreRefusedWithAReason(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"HTML", "<!doctype html>\n<html>", `line 1 of the schema: "<" is unexpected`},
		{"JSON", `{"service": "x"}`, `"{" is unexpected`},
		{"too large", strings.Repeat(" ", contract.MaxSize+1), "more than 4194304 bytes"},
		{"an open message", "message M {\n  string a = 1;\n", "line 3 of the schema: the text ends too early"},
		{"an open comment", "/* a", "a comment does not end"},
		{"an open string", "option a = \"x\n\";", "a string does not end"},
		{"an open option", "option (a) = { b: [", "the text ends too early"},
		{"closed too often", "option a = ];", `"]" is unexpected`},
		{"nested too deep", strings.Repeat("message M {", 40), "nested more than 32 deep"},
		{"oneof in oneof", "message M { oneof a { oneof b { int32 c = 1; } } }", "a oneof is in another one"},
		{"no number", "message M { string a = x; }", `"x" is no number`},
		{"a number too large", "message M { string a = 4294967296; }", "is no number"},
		{"no type", "message M { = 1; }", `"=" is no type`},
		{"a nameless message", "message { }", `"{" is no name`},
		{"a field in a service", "service S { string a = 1; }", "unexpected in a service"},
		{"a message twice", "message M {} message M {}", "M is defined twice"},
		{"a method twice", "service S { rpc A (B) returns (C); rpc A (B) returns (C); }", "S/A is defined twice"},
		{"a long name", "message " + strings.Repeat("n", 600) + " {}", "longer than 512 bytes"},
		{"too many", "message M {" + strings.Repeat("int32 a=1;", 40_000) + "}", "more than 32768 elements"},
		{"a word for a terminal", "\x1b[2J", `"?" is unexpected`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := contract.ParseSchema(tt.text)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestSchemasOfAllFormsAreRead(t *testing.T) {
	t.Parallel()
	const text = "\ufeff" + `// a comment
syntax = "proto3"; package a; /* another
one */ import public "b.proto"; option (x.y) = { z: "};" w: [1, 2] };
message M {
   option deprecated = true; reserved 2, 5 to 7; reserved "old";
   string s = 1 [json_name = "S;", (opt) = {a: 1}]; // trailing
   optional .a.M.Inner in = 3; repeated E e = 4; map<string, Inner> m_of_it = 8;
   oneof choice { option (x) = 1; int32 i = 9; Inner c = 10; }
   message Inner { } enum In { ZERO = 0; NEG = -1; };
   In kind = 0x10; ;
}
enum E { option allow_alias = true; NIL = 0 [deprecated = true]; NONE = 0; ONE = 1; reserved 5; }
extend google.protobuf.FieldOptions { string opt = 50001; }
service S { option deprecated = true;
   rpc A (M) returns (stream M.Inner) { option (google.api.http) = { get: "/x" }; }
   rpc B (stream .a.M) returns (.google.protobuf.Empty); rpc C (b.Other) returns (stream); ;
}
syntax = "proto3";
package c.d;
message M { a.E e = 1; }
service S { rpc A (M) returns (M) {} }
`
	c, err := contract.ParseSchema(text)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	if got, want := strings.Join(c.Services(), " "), "a.S c.d.S"; got != want {
		t.Errorf("services: got %s, want %s", got, want)
	}
	if again, err := c.Schema(); err != nil || again != text {
		t.Errorf("schema: got %q, %v, want the text that was read", again, err)
	}
	want := strings.Join([]string{
		"method removed a.S/B: the method is missing", "method removed a.S/C: the method is missing",
		"response changed a.S/A: it returns a.M where a.M.Inner is needed", "field retyped a.M.kind: field 16 is int32 where a.M.In is needed",
		"field removed a.M.m_of_it: field 8 is missing", "field relabelled a.M.i: field 9 is in no oneof where it is needed in oneof choice",
		"field retyped a.M.in: field 3 is a.Inner where a.M.Inner is needed", "field removed a.M.c: field 10 is missing",
		"field removed a.M.s: field 1 is missing", "enum removed a.E: the enum is missing",
		"service removed c.d.S: the service is missing",
	}, "\n")
	other, err := contract.ParseSchema(`package a; message M { int32 kind = 16; int32 i = 9; Inner in = 3; repeated E e = 4; }
		service S { rpc A (M) returns (stream M); }`)
	if err != nil {
		t.Fatalf("parse the other: %v", err)
	}
	if got := found(contract.Compare(c, other, contract.AllServices)); !sameLines(got, want) {
		t.Errorf("compared with less: got\n%s\nwant\n%s", got, want)
	}
}

// plainText says that a text is one line that does nothing to a terminal.
func plainText(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 })
}

func TestWhatAServerSaysIsMadePlainAndBounded(t *testing.T) {
	t.Parallel()
	var reasons []string
	for range 200 {
		reasons = append(reasons, "\x1b[31mred\r\n"+strings.Repeat("ä", 10_000))
	}
	err := contract.Refused(reasons, "1\n2", strings.Repeat("v", 1000))
	if got, want := len(err.Incompatibilities), 64; got != want {
		t.Errorf("incompatibilities: got %d, want %d", got, want)
	}
	if got, want := err.More, 136; got != want {
		t.Errorf("more: got %d, want %d", got, want)
	}
	for _, text := range append(err.Incompatibilities, err.ServerVersion, err.ServerProtocolVersion, err.Error()) {
		if !plainText(text) || len(text) > 1200 {
			t.Errorf("got %d bytes %q, want a short plain line", len(text), text)
		}
	}
	if got, want := err.Incompatibilities[0][:10], "?[31mred??"; got != want {
		t.Errorf("reason: got %q, want %q", got, want)
	}
	if got, want := contract.Refused(nil, "", "").Error(), "it does not say why"; !strings.Contains(got, want) {
		t.Errorf("no reason: got %q, want %q in it", got, want)
	}
	if got := contract.Plain(strings.Repeat("\x80", 300)); len(got) > 300 {
		t.Errorf("bytes of no letter: got %d bytes", len(got))
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte{})
	f.Add(contract.DescriptorSet())
	f.Add(setOf(f, shop()))
	f.Add(setOf(f, shop(), fileOf(nested(33))))
	f.Add(setOf(f, fileOf(messageOf("M"), messageOf("M"))))
	f.Add(wrapped(wrapped(nil, 3, 50), 4, 1))
	f.Add([]byte{0x0a, 0x80, 0x80, 0x80, 0x80, 0x80})
	shopBytes := setOf(f, shop())
	f.Fuzz(func(t *testing.T, set []byte) {
		c, err := contract.Parse(set)
		if err != nil {
			if !plainText(err.Error()) {
				t.Errorf("error is %q", err)
			}
			return
		}
		if got := contract.Compare(c, c, contract.AllServices); !got.Compatible() && !ambiguous(got) {
			t.Errorf("it does not fit itself: %s", found(got))
		}
		again, err := contract.Parse(c.DescriptorSet())
		if err != nil || !bytes.Equal(again.DescriptorSet(), c.DescriptorSet()) {
			t.Errorf("what it kept is not what it keeps of that: %v", err)
		}
		other, err := contract.Parse(shopBytes)
		if err != nil {
			t.Fatal(err)
		}
		for _, report := range []*contract.Report{contract.Compare(c, other, contract.AllServices), contract.Compare(other, c, contract.AllServices)} {
			for _, line := range report.Lines() {
				if !plainText(line) {
					t.Errorf("line is %q", line)
				}
			}
		}
		if text, err := c.Schema(); err == nil {
			_, _ = contract.ParseSchema(text) // names may be no names, but nothing panics
		}
	})
}

// ambiguous says that all differences are of fields: of several with one number only the first is looked at.
func ambiguous(r *contract.Report) bool {
	for _, d := range r.Differences {
		if d.Kind != contract.FieldRetyped && d.Kind != contract.FieldRelabelled && d.Kind != contract.FieldRenamed {
			return false
		}
	}
	return true
}

func FuzzParseSchema(f *testing.F) {
	for _, c := range []*contract.Contract{contract.Connections(), contract.Host(), contract.Session()} {
		text, err := c.Schema()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add("message M { map<string, M> m = 1; oneof o { M a = 2; } } enum E { A = -1; }")
	f.Add("service S { rpc A (stream) returns (stream .a.B) { option (x) = { y: 1 }; } }")
	f.Add("/* \"'")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := contract.ParseSchema(text)
		if err != nil {
			if !plainText(err.Error()) {
				t.Errorf("error is %q", err)
			}
			return
		}
		if got := contract.Compare(c, c, contract.AllServices); !got.Compatible() && !ambiguous(got) {
			t.Errorf("it does not fit itself: %s", found(got))
		}
	})
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package contract

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Schema returns the contract as proto3 source text, one file behind the other, as stock servers answer GetDescriptorSet:
// stock clients of before CheckCompatibility compare it line by line with their own. Of a contract that was read from a text it
// returns that. The error says that there is neither, or that the descriptor set is not valid.
func (c *Contract) Schema() (string, error) {
	switch {
	case c == nil || c.set == nil && c.text == "":
		return "", errors.New("contract: it has no descriptor set to print")
	case c.text != "":
		return c.text, nil
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(c.DescriptorSet(), set); err != nil {
		return "", fmt.Errorf("contract: %w", err)
	}
	p := &printer{}
	for i, file := range set.GetFile() {
		if i > 0 {
			p.line("")
		}
		p.file(file)
	}
	return p.String(), nil
}

// printer writes lines, three blanks for each level.
type printer struct {
	strings.Builder
	level int
	scope string // the package
}

func (p *printer) line(format string, args ...any) {
	if format != "" {
		p.WriteString(strings.Repeat("   ", p.level))
	}
	fmt.Fprintf(p, format+"\n", args...)
}

func (p *printer) block(head string, body func()) {
	p.line("%s {", head)
	p.level++
	body()
	p.level--
	p.line("}")
}

func (p *printer) file(file *descriptorpb.FileDescriptorProto) {
	p.scope = file.GetPackage()
	p.line(`syntax = "proto3";`)
	if p.scope != "" {
		p.line("package %s;", p.scope)
	}
	for _, path := range file.GetDependency() {
		p.line("import %q;", path)
	}
	p.line("")
	for _, m := range file.GetMessageType() {
		p.message(m)
	}
	for _, e := range file.GetEnumType() {
		p.enum(e)
	}
	for _, s := range file.GetService() {
		p.service(s)
	}
}

func (p *printer) message(m *descriptorpb.DescriptorProto) {
	entries := make(map[string]*descriptorpb.DescriptorProto)
	p.block("message "+m.GetName(), func() {
		for _, nested := range m.GetNestedType() {
			if nested.GetOptions().GetMapEntry() {
				entries[nested.GetName()] = nested
				continue
			}
			p.message(nested)
		}
		for _, e := range m.GetEnumType() {
			p.enum(e)
		}
		for _, f := range m.GetField() {
			if f.OneofIndex == nil || f.GetProto3Optional() {
				p.field(f, entries)
			}
		}
		for i, oneof := range m.GetOneofDecl() {
			p.oneof(oneof.GetName(), int32(i), m.GetField()) //nolint:gosec // there are not so many
		}
	})
}

// oneof prints the fields of a oneof, unless it stands for a field's own presence.
func (p *printer) oneof(name string, index int32, fields []*descriptorpb.FieldDescriptorProto) {
	var members []*descriptorpb.FieldDescriptorProto
	for _, f := range fields {
		if f.OneofIndex != nil && f.GetOneofIndex() == index && !f.GetProto3Optional() {
			members = append(members, f)
		}
	}
	if len(members) == 0 {
		return
	}
	p.block("oneof "+name, func() {
		for _, f := range members {
			p.field(f, nil)
		}
	})
}

func (p *printer) field(f *descriptorpb.FieldDescriptorProto, entries map[string]*descriptorpb.DescriptorProto) {
	last := f.GetTypeName()[strings.LastIndexByte(f.GetTypeName(), '.')+1:]
	if entry := entries[last]; entry != nil && len(entry.GetField()) == 2 {
		p.line("map<%s, %s> %s = %d;", p.typ(entry.GetField()[0]), p.typ(entry.GetField()[1]), f.GetName(), f.GetNumber())
		return
	}
	prefix := ""
	switch {
	case f.GetLabel() == descriptorpb.FieldDescriptorProto_LABEL_REPEATED:
		prefix = "repeated "
	case f.GetProto3Optional():
		prefix = "optional "
	}
	p.line("%s%s %s = %d;", prefix, p.typ(f), f.GetName(), f.GetNumber())
}

// typ is the type of a field.
func (p *printer) typ(f *descriptorpb.FieldDescriptorProto) string {
	if t := typeOf(uint64(f.GetType()), f.GetTypeName()); !strings.HasPrefix(t, ".") { //nolint:gosec // never negative
		return t
	}
	return p.relative(f.GetTypeName(), fieldWords())
}

// fieldWords are those with which something else begins than a field of a type of that name.
func fieldWords() map[string]bool {
	words := make(map[string]bool)
	for _, word := range append([]string{
		"message", "enum", "oneof", "option", "reserved", "extensions", "extend", "optional", "required", "repeated", "map", "group",
	}, scalars[:]...) {
		words[word] = true
	}
	return words
}

// relative shortens the name of a type of this package, unless one of the names in between hides it.
func (p *printer) relative(typ string, hidden map[string]bool) string {
	name, found := strings.CutPrefix(typ, "."+p.scope+".")
	if !found || strings.Contains(name, ".") || hidden[name] {
		return typ
	}
	return name
}

func (p *printer) enum(e *descriptorpb.EnumDescriptorProto) {
	p.block("enum "+e.GetName(), func() {
		if e.GetOptions().GetAllowAlias() {
			p.line("option allow_alias = true;")
		}
		for _, v := range e.GetValue() {
			p.line("%s = %d;", v.GetName(), v.GetNumber())
		}
	})
}

func (p *printer) service(s *descriptorpb.ServiceDescriptorProto) {
	methods := map[string]bool{"stream": true} // that says something else
	for _, m := range s.GetMethod() {
		methods[m.GetName()] = true
	}
	parameter := func(typ string, streams bool) string {
		if streams {
			return "stream " + p.relative(typ, methods)
		}
		return p.relative(typ, methods)
	}
	p.block("service "+s.GetName(), func() {
		for _, m := range s.GetMethod() {
			p.line("rpc %s (%s) returns (%s);", m.GetName(),
				parameter(m.GetInputType(), m.GetClientStreaming()), parameter(m.GetOutputType(), m.GetServerStreaming()))
		}
	})
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package contract

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ParseSchema reads proto3 source text, which anybody may have written: what GetDescriptorSet answers. Stock servers put
// the sources of all their packages one behind the other there, so each "syntax" begins a new file. It takes what a
// comparison needs and skips the rest. The bounds are those of Parse. Imports are not followed.
func ParseSchema(text string) (*Contract, error) {
	if len(text) > MaxSize {
		return nil, fmt.Errorf("contract: the schema has more than %d bytes", MaxSize)
	}
	p := schemaParser{lexer: lexer{rest: text, line: 1}, b: newBuilder()}
	if err := p.files(); err != nil {
		return nil, fmt.Errorf("contract: line %d of the schema: %w", p.lexer.line, err)
	}
	c := p.b.finish(nil)
	c.text = text
	return c, nil
}

// schemaParser reads statement by statement; one that it does not know is skipped where the language lets it end.
type schemaParser struct {
	lexer lexer
	b     *builder
}

var errTextEnds = errors.New("the text ends too early")

// files reads all.
func (p *schemaParser) files() error {
	for {
		word, err := p.lexer.next()
		switch {
		case err != nil:
			return err
		case word == "":
			return nil
		}
		switch word {
		case ";":
		case "syntax", "edition":
			p.b.home = ""
			err = p.skip()
		case "package":
			if p.b.home, err = p.name(); err == nil {
				err = p.skip()
			}
		case "message", "enum", "service":
			err = p.element(word, p.b.home, maxDepth)
		case "import", "option", "extend":
			err = p.skip()
		default:
			err = fmt.Errorf("%q is unexpected", Plain(word))
		}
		if err != nil {
			return err
		}
	}
}

// element reads a message, an enum or a service.
func (p *schemaParser) element(kind, scope string, depth int) error {
	if depth == 0 {
		return fmt.Errorf("messages are nested more than %d deep", maxDepth)
	}
	name, err := p.declared(scope)
	if err != nil {
		return err
	}
	if err := p.want("{"); err != nil {
		return err
	}
	switch kind {
	case "message":
		return p.message(name, depth)
	case "enum":
		return p.enum(name)
	default:
		return p.service(name)
	}
}

// declared reads a name and puts it into its scope.
func (p *schemaParser) declared(scope string) (string, error) {
	if err := p.b.count(); err != nil {
		return "", err
	}
	name, err := p.name()
	if err != nil {
		return "", err
	}
	return fullName(scope, name)
}

// message reads the body of a message.
func (p *schemaParser) message(name string, depth int) error {
	m := &message{name: name}
	if err := declare(p.b.messages, name, m); err != nil {
		return err
	}
	if err := p.fields(m, "", depth); err != nil {
		return err
	}
	for i := range m.fields {
		if f := &m.fields[i]; !isScalar(f.typ) {
			if err := p.b.refer(&f.typ, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// fields reads to the end of a message, or of a oneof in it.
func (p *schemaParser) fields(m *message, oneof string, depth int) error {
	for {
		word, err := p.lexer.next()
		if err != nil {
			return err
		}
		switch word {
		case "":
			return errTextEnds
		case "}":
			return nil
		case ";":
		case "message", "enum":
			err = p.element(word, m.name, depth-1)
		case "oneof":
			err = p.oneof(m, oneof, depth)
		case "option", "reserved", "extensions", "extend":
			err = p.skip()
		default:
			err = p.field(m, word, oneof)
		}
		if err != nil {
			return err
		}
	}
}

func (p *schemaParser) oneof(m *message, outer string, depth int) error {
	if outer != "" {
		return errors.New("a oneof is in another one")
	}
	name, err := p.declared("")
	if err != nil {
		return err
	}
	if err := p.want("{"); err != nil {
		return err
	}
	return p.fields(m, name, depth)
}

// field reads a field that begins with word.
func (p *schemaParser) field(m *message, word, oneof string) error {
	if err := p.b.count(); err != nil {
		return err
	}
	f := field{oneof: oneof}
	var err error
	switch word {
	case "optional", "required", "repeated":
		f.label = map[string]label{"required": required, "repeated": repeated}[word]
		if word, err = p.lexer.next(); err != nil {
			return err
		}
	}
	f.typ = word
	var entry *message
	if word == "map" {
		if entry, err = p.entry(); err != nil {
			return err
		}
	} else if !isName(word) {
		return fmt.Errorf("%q is no type", Plain(word))
	}
	if f.name, err = p.name(); err != nil {
		return err
	}
	if word == "group" && strings.HasPrefix(f.name, ".") { // as Schema writes what proto3 has no word for
		f.typ = groupPrefix + f.name
		if f.name, err = p.name(); err != nil {
			return err
		}
	}
	if len(m.name)+1+len(f.name) > maxName {
		return errLongName
	}
	if f.number, err = p.number(); err != nil {
		return err
	}
	if err := p.skip(); err != nil {
		return err
	}
	if entry != nil {
		if f.typ, err = p.declareEntry(m, f.name, entry); err != nil {
			return err
		}
		f.label = repeated
	}
	m.fields = append(m.fields, f)
	return nil
}

// entry reads the types of a map, and makes the message that a map consists of.
func (p *schemaParser) entry() (*message, error) {
	if err := p.want("<"); err != nil {
		return nil, err
	}
	key, err := p.name()
	if err != nil {
		return nil, err
	}
	if err := p.want(","); err != nil {
		return nil, err
	}
	value, err := p.name()
	if err != nil {
		return nil, err
	}
	return &message{fields: []field{{number: 1, name: "key", typ: key}, {number: 2, name: "value", typ: value}}}, p.want(">")
}

// declareEntry adds the message of a map to the one that has the map, under the name that protoc gives it.
func (p *schemaParser) declareEntry(m *message, fieldName string, entry *message) (string, error) {
	for range 3 {
		if err := p.b.count(); err != nil {
			return "", err
		}
	}
	var err error
	if entry.name, err = fullName(m.name, camelCase(fieldName)+"Entry"); err != nil {
		return "", err
	}
	if err := declare(p.b.messages, entry.name, entry); err != nil {
		return "", err
	}
	if value := &entry.fields[1]; !isScalar(value.typ) {
		if err := p.b.refer(&value.typ, entry.name); err != nil {
			return "", err
		}
	}
	return "." + entry.name, nil
}

// camelCase drops underscores and makes the letters behind them, and the first one, upper case.
func camelCase(name string) string {
	var b strings.Builder
	upper := true
	for _, c := range []byte(name) {
		switch {
		case c == '_':
			upper = true
			continue
		case upper && 'a' <= c && c <= 'z':
			c -= 'a' - 'A'
		}
		upper = false
		b.WriteByte(c)
	}
	return b.String()
}

// enum reads the body of an enum.
func (p *schemaParser) enum(name string) error {
	e := &enum{name: name}
	if err := declare(p.b.enums, name, e); err != nil {
		return err
	}
	for {
		word, err := p.lexer.next()
		if err != nil {
			return err
		}
		switch word {
		case "":
			return errTextEnds
		case "}":
			return nil
		case ";":
			continue
		case "option", "reserved":
			if err := p.skip(); err != nil {
				return err
			}
			continue
		}
		if err := p.enumValue(e, word); err != nil {
			return err
		}
	}
}

func (p *schemaParser) enumValue(e *enum, name string) error {
	if err := p.b.count(); err != nil {
		return err
	}
	if !isName(name) {
		return fmt.Errorf("%q is no name", Plain(name))
	}
	if len(e.name)+1+len(name) > maxName {
		return errLongName
	}
	number, err := p.number()
	if err != nil {
		return err
	}
	e.values = append(e.values, enumValue{number: number, name: name})
	return p.skip()
}

// service reads the body of a service.
func (p *schemaParser) service(name string) error {
	s := &service{name: name}
	if err := declare(p.b.services, name, s); err != nil {
		return err
	}
	for {
		word, err := p.lexer.next()
		if err != nil {
			return err
		}
		switch word {
		case "":
			return errTextEnds
		case "}":
			return p.b.referAll(s, name)
		case ";":
		case "option":
			err = p.skip()
		case "rpc":
			err = p.method(s)
		default:
			err = fmt.Errorf("%q is unexpected in a service", Plain(word))
		}
		if err != nil {
			return err
		}
	}
}

func (p *schemaParser) method(s *service) error {
	if err := p.b.count(); err != nil {
		return err
	}
	name, err := p.name()
	if err != nil {
		return err
	}
	if _, err := fullName(s.name, name); err != nil {
		return err
	}
	m := method{name: name}
	if m.request, m.streamsIn, err = p.parameter(); err != nil {
		return err
	}
	if err := p.want("returns"); err != nil {
		return err
	}
	if m.response, m.streamsOut, err = p.parameter(); err != nil {
		return err
	}
	s.methods = append(s.methods, m)
	return p.skip()
}

// parameter reads what a method takes or returns.
func (p *schemaParser) parameter() (typ string, streams bool, err error) {
	if err := p.want("("); err != nil {
		return "", false, err
	}
	if typ, err = p.name(); err != nil {
		return "", false, err
	}
	word, err := p.lexer.next()
	if err != nil {
		return "", false, err
	}
	if typ == "stream" && word != ")" {
		if !isName(word) {
			return "", false, fmt.Errorf("%q is no type", Plain(word))
		}
		return word, true, p.want(")")
	}
	if word != ")" {
		return "", false, fmt.Errorf("%q is unexpected, want )", Plain(word))
	}
	return typ, false, nil
}

// name reads a name, with dots or without.
func (p *schemaParser) name() (string, error) {
	word, err := p.lexer.next()
	switch {
	case err != nil:
		return "", err
	case word == "":
		return "", errTextEnds
	case !isName(word):
		return "", fmt.Errorf("%q is no name", Plain(word))
	}
	return word, nil
}

// number reads "= number".
func (p *schemaParser) number() (int32, error) {
	if err := p.want("="); err != nil {
		return 0, err
	}
	word, err := p.lexer.next()
	sign := ""
	if err == nil && word == "-" {
		sign = word
		word, err = p.lexer.next()
	}
	if err != nil {
		return 0, err
	}
	number, err := strconv.ParseInt(sign+word, 0, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is no number", Plain(word))
	}
	return int32(number), nil
}

// want reads a word that has to come.
func (p *schemaParser) want(word string) error {
	got, err := p.lexer.next()
	switch {
	case err != nil:
		return err
	case got == "":
		return errTextEnds
	case got != word:
		return fmt.Errorf("%q is unexpected, want %s", Plain(got), word)
	}
	return nil
}

// skip reads to the end of a statement: a semicolon, or a block in braces. The brackets that a statement opens may hold
// either.
func (p *schemaParser) skip() error {
	open := 0
	for {
		word, err := p.lexer.next()
		if err != nil {
			return err
		}
		switch word {
		case "":
			return errTextEnds
		case ";":
			if open == 0 {
				return nil
			}
		case "{", "[", "(":
			open++
		case "}", "]", ")":
			if open--; open < 0 {
				return fmt.Errorf("%q is unexpected", word)
			}
			if open == 0 && word == "}" {
				return nil
			}
		}
	}
}

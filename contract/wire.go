// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package contract

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Parse reads a serialized google.protobuf.FileDescriptorSet, which anybody may have written. It takes what a comparison
// needs and skips the rest, in time and memory that grow with the length and no faster. What a file imports may be missing:
// what is not known is not compared. An error says that the bytes are no descriptor set, or that a bound is exceeded:
// MaxSize bytes, 32768 elements, messages nested 32 deep, names of 512 bytes in 48 parts, and each name once.
//
// It does not use the descriptor types of protobuf, which take a hundred times the memory that hostile bytes have.
func Parse(set []byte) (*Contract, error) {
	if len(set) > MaxSize {
		return nil, fmt.Errorf("contract: the descriptor set has more than %d bytes", MaxSize)
	}
	b := newBuilder()
	kept := make([]byte, 0, len(set))
	seen := make(map[string][][]byte)
	err := eachField(set, func(f wireField) error {
		if f.number != setFile {
			return nil
		}
		if err := b.count(); err != nil {
			return err
		}
		path, err := text(f.bytes, filePath)
		if err != nil || strings.HasPrefix(path, wellKnown) || contains(seen[path], f.bytes) {
			return err
		}
		if len(seen[path]) < maxVariants {
			seen[path] = append(seen[path], f.bytes)
		}
		kept = protowire.AppendTag(kept, setFile, protowire.BytesType)
		kept = protowire.AppendBytes(kept, f.bytes)
		return b.file(f.bytes)
	})
	if err != nil {
		return nil, fmt.Errorf("contract: the descriptor set cannot be read: %w", err)
	}
	return b.finish(kept), nil
}

// maxVariants is how many different files of one path are remembered: to compare with more would take its time.
const maxVariants = 4

func contains(all [][]byte, one []byte) bool {
	for _, b := range all {
		if bytes.Equal(b, one) {
			return true
		}
	}
	return false
}

// Field numbers of google/protobuf/descriptor.proto.
const (
	setFile = 1

	filePath, filePackage, fileMessage, fileEnum, fileService = 1, 2, 4, 5, 6

	elementName = 1 // of all but files

	messageField, messageMessage, messageEnum, messageOneof = 2, 3, 4, 8

	fieldNumber, fieldLabel, fieldType, fieldTypeName, fieldOneof, fieldOptional = 3, 4, 5, 6, 9, 17

	enumValueField, enumValueNumber = 2, 2

	serviceMethod                                                    = 2
	methodRequest, methodResponse, methodStreamsIn, methodStreamsOut = 2, 3, 5, 6

	labelRequired, labelRepeated = 2, 3
	typeGroup                    = 10
)

// scalars are the names of the types by their number; those that have a type name are empty.
//
//nolint:gochecknoglobals // a table that nobody changes
var scalars = [...]string{
	1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool", 9: "string",
	12: "bytes", 13: "uint32", 15: "sfixed32", 16: "sfixed64", 17: "sint32", 18: "sint64",
}

// wireField is a field of a message on the wire.
type wireField struct {
	number protowire.Number
	bytes  []byte // of a length-delimited one
	varint uint64
}

// cutField takes the first field off a message. Of one that is neither a varint nor length-delimited it leaves the number 0.
func cutField(message []byte) (f wireField, rest []byte, err error) {
	number, kind, n := protowire.ConsumeTag(message)
	if n < 0 {
		return f, nil, protowire.ParseError(n)
	}
	message = message[n:]
	switch kind {
	case protowire.BytesType:
		f.number = number
		f.bytes, n = protowire.ConsumeBytes(message)
	case protowire.VarintType:
		f.number = number
		f.varint, n = protowire.ConsumeVarint(message)
	default:
		n = protowire.ConsumeFieldValue(number, kind, message)
	}
	if n < 0 {
		return f, nil, protowire.ParseError(n)
	}
	return f, message[n:], nil
}

// eachField calls visit for each field of a message.
func eachField(message []byte, visit func(wireField) error) error {
	for len(message) > 0 {
		f, rest, err := cutField(message)
		if err == nil {
			err = visit(f)
		}
		if err != nil {
			return err
		}
		message = rest
	}
	return nil
}

// text returns a string field of a message; the last one counts.
func text(message []byte, number protowire.Number) (string, error) {
	var found []byte
	for len(message) > 0 {
		f, rest, err := cutField(message)
		if err != nil {
			return "", err
		}
		if f.number == number {
			found = f.bytes
		}
		message = rest
	}
	return string(found), nil
}

// file reads a FileDescriptorProto.
func (b *builder) file(file []byte) error {
	scope, err := text(file, filePackage) // it may stand behind what it is the scope of
	if err != nil {
		return err
	}
	b.home = scope
	return eachField(file, func(f wireField) error {
		switch f.number {
		case fileMessage:
			return b.message(f.bytes, scope, maxDepth)
		case fileEnum:
			return b.enum(f.bytes, scope)
		case fileService:
			return b.service(f.bytes, scope)
		default:
			return nil
		}
	})
}

// named returns the full name of an element.
func (b *builder) named(element []byte, scope string) (string, error) {
	if err := b.count(); err != nil {
		return "", err
	}
	name, err := text(element, elementName)
	if err != nil {
		return "", err
	}
	return fullName(scope, name)
}

// message reads a DescriptorProto with all that is in it.
func (b *builder) message(raw []byte, scope string, depth int) error {
	if depth == 0 {
		return fmt.Errorf("messages are nested more than %d deep", maxDepth)
	}
	name, err := b.named(raw, scope)
	if err != nil {
		return err
	}
	m := &message{name: name}
	if err := declare(b.messages, name, m); err != nil {
		return err
	}
	oneofs, err := b.oneofs(raw)
	if err != nil {
		return err
	}
	err = eachField(raw, func(f wireField) error {
		switch f.number {
		case messageField:
			return b.field(m, f.bytes, oneofs)
		case messageMessage:
			return b.message(f.bytes, name, depth-1)
		case messageEnum:
			return b.enum(f.bytes, name)
		default:
			return nil
		}
	})
	if err != nil {
		return err
	}
	for i := range m.fields {
		if f := &m.fields[i]; !isScalar(f.typ) {
			if err := b.refer(&f.typ, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// oneofs returns the names of the oneofs of a message.
func (b *builder) oneofs(raw []byte) ([]string, error) {
	var names []string
	err := eachField(raw, func(f wireField) error {
		if f.number != messageOneof {
			return nil
		}
		if err := b.count(); err != nil {
			return err
		}
		name, err := text(f.bytes, elementName)
		if len(name) > maxName {
			return errLongName
		}
		names = append(names, name)
		return err
	})
	return names, err
}

// field reads a FieldDescriptorProto.
func (b *builder) field(m *message, raw []byte, oneofs []string) error {
	if err := b.count(); err != nil {
		return err
	}
	parsed, kind, typeName, optional := field{}, uint64(0), "", false
	err := eachField(raw, func(f wireField) error {
		switch f.number {
		case elementName:
			parsed.name = string(f.bytes)
		case fieldNumber:
			parsed.number = int32(f.varint) //nolint:gosec // as protobuf reads it
		case fieldLabel:
			parsed.label = labelOf(f.varint)
		case fieldType:
			kind = f.varint
		case fieldTypeName:
			typeName = string(f.bytes)
		case fieldOneof:
			if f.varint < uint64(len(oneofs)) {
				parsed.oneof = oneofs[f.varint]
			}
		case fieldOptional:
			optional = f.varint != 0
		}
		return nil
	})
	if optional {
		parsed.oneof = "" // of its own making
	}
	parsed.typ = typeOf(kind, typeName)
	if len(m.name)+1+len(parsed.name) > maxName || len(typeName) > maxName {
		return errLongName
	}
	m.fields = append(m.fields, parsed)
	return err
}

func labelOf(number uint64) label {
	switch number {
	case labelRepeated:
		return repeated
	case labelRequired:
		return required
	default:
		return singular
	}
}

// typeOf is the type of a field as it is compared.
func typeOf(kind uint64, typeName string) string {
	switch {
	case kind < uint64(len(scalars)) && scalars[kind] != "":
		return scalars[kind]
	case kind == typeGroup:
		return groupPrefix + typeName
	case typeName == "":
		return "type " + strconv.FormatUint(kind, 10) + unknownType
	default:
		return typeName
	}
}

// A group differs from a message of the same name on the wire.
const (
	groupPrefix = "group "
	unknownType = " of protobuf"
)

// isScalar says that a type is not a reference that could be resolved.
func isScalar(typ string) bool {
	if strings.HasPrefix(typ, groupPrefix) || strings.HasSuffix(typ, unknownType) {
		return true
	}
	for _, s := range scalars {
		if s == typ {
			return true
		}
	}
	return false
}

// enum reads an EnumDescriptorProto.
func (b *builder) enum(raw []byte, scope string) error {
	name, err := b.named(raw, scope)
	if err != nil {
		return err
	}
	e := &enum{name: name}
	if err := declare(b.enums, name, e); err != nil {
		return err
	}
	return eachField(raw, func(f wireField) error {
		if f.number != enumValueField {
			return nil
		}
		if err := b.count(); err != nil {
			return err
		}
		var v enumValue
		err := eachField(f.bytes, func(f wireField) error {
			switch f.number {
			case elementName:
				v.name = string(f.bytes)
			case enumValueNumber:
				v.number = int32(f.varint) //nolint:gosec // as protobuf reads it
			}
			return nil
		})
		if len(name)+1+len(v.name) > maxName {
			return errLongName
		}
		e.values = append(e.values, v)
		return err
	})
}

// service reads a ServiceDescriptorProto.
func (b *builder) service(raw []byte, scope string) error {
	name, err := b.named(raw, scope)
	if err != nil {
		return err
	}
	s := &service{name: name}
	if err := declare(b.services, name, s); err != nil {
		return err
	}
	err = eachField(raw, func(f wireField) error {
		if f.number != serviceMethod {
			return nil
		}
		return b.method(s, f.bytes)
	})
	if err != nil {
		return err
	}
	return b.referAll(s, name)
}

// referAll notes the references of a service's methods.
func (b *builder) referAll(s *service, scope string) error {
	seen := make(map[string]bool, len(s.methods))
	for i := range s.methods {
		m := &s.methods[i]
		if seen[m.name] {
			return fmt.Errorf("%s/%s is defined twice", Plain(s.name), Plain(m.name))
		}
		seen[m.name] = true
		for _, target := range []*string{&m.request, &m.response} {
			if err := b.refer(target, scope); err != nil {
				return err
			}
		}
	}
	return nil
}

// method reads a MethodDescriptorProto.
func (b *builder) method(s *service, raw []byte) error {
	if err := b.count(); err != nil {
		return err
	}
	var m method
	err := eachField(raw, func(f wireField) error {
		switch f.number {
		case elementName:
			m.name = string(f.bytes)
		case methodRequest:
			m.request = string(f.bytes)
		case methodResponse:
			m.response = string(f.bytes)
		case methodStreamsIn:
			m.streamsIn = f.varint != 0
		case methodStreamsOut:
			m.streamsOut = f.varint != 0
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := fullName(s.name, m.name); err != nil {
		return err
	}
	s.methods = append(s.methods, m)
	return nil
}

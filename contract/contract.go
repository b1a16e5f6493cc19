// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package contract

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Bounds of what is read. A contract of a whole event store has some 30 files, 3000 elements and 200 KiB.
const (
	// MaxSize bounds a descriptor set and a schema text, in bytes.
	MaxSize = 4 << 20
	// maxElements bounds files, services, methods, messages, fields, enums and their values, all together.
	maxElements = 32 << 10
	// maxDepth is how deep messages may be nested.
	maxDepth = 32
	// maxName bounds a full name, in bytes, and maxParts in names between dots.
	maxName  = 512
	maxParts = 48
)

var (
	errLongName  = fmt.Errorf("a name is longer than %d bytes", maxName)
	errManyParts = fmt.Errorf("a name has more than %d parts", maxParts)
)

// wellKnown is where the files of protobuf itself are. They are the same everywhere and no part of anybody's contract:
// their types are compared by name, and they are neither read nor sent.
const wellKnown = "google/protobuf/"

// Contract is what a peer serves or needs: services, and the messages and enums that they are made of. New, Parse and
// ParseSchema make one; the zero value and nil are a contract without services. It is never changed and safe for
// concurrent use.
type Contract struct {
	set      []byte // a FileDescriptorSet; nil when there is none
	text     string // where the contract was read from one
	services map[string]*service
	messages map[string]*message
	enums    map[string]*enum
}

// service, and what follows, are named without a leading dot; a reference to a message or an enum begins with one.
type service struct {
	name    string
	methods []method // by name
}

type method struct {
	name                  string
	request, response     string
	streamsIn, streamsOut bool
}

type message struct {
	name   string
	fields []field // by number
}

type field struct {
	number int32
	label  label
	name   string
	typ    string // "int32", ".package.Message"
	oneof  string // empty when it stands alone
}

type label int8

const (
	singular label = iota
	required
	repeated
)

// String returns how the label is called in an error.
func (l label) String() string {
	switch l {
	case repeated:
		return "repeated"
	case required:
		return "required"
	default:
		return "singular"
	}
}

type enum struct {
	name   string
	values []enumValue // by number; of several names for one the first
}

type enumValue struct {
	number int32
	name   string
}

// New returns the contract that is made of these files and all that they import, such as File_x_proto of generated code.
// The error says what is wrong with them, or that there is too much.
func New(files ...protoreflect.FileDescriptor) (*Contract, error) {
	set := &descriptorpb.FileDescriptorSet{}
	seen := make(map[string]bool)
	var add func(protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] || file.IsPlaceholder() {
			return
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i).FileDescriptor)
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(file))
	}
	for _, file := range files {
		if file == nil {
			return nil, errors.New("contract: a file is nil")
		}
		add(file)
	}
	return fromSet(set)
}

// fromSet returns the contract of a set.
func fromSet(set *descriptorpb.FileDescriptorSet) (*Contract, error) {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("contract: %w", err)
	}
	return Parse(raw)
}

// Join returns the contract that is made of several. A file that occurs in more than one of them, byte for byte, counts
// once. The error names what is defined twice. Contracts without a descriptor set cannot be joined.
func Join(contracts ...*Contract) (*Contract, error) {
	var set []byte
	for _, c := range contracts {
		if c == nil {
			continue
		}
		if c.set == nil && len(c.services) > 0 {
			return nil, errors.New("contract: one without a descriptor set cannot be joined")
		}
		set = append(set, c.set...)
	}
	return Parse(set)
}

// Overlay returns the contract that has whatever one of these has. Of what several define, the first counts. It has neither
// a descriptor set nor a schema, and is good for a comparison.
func Overlay(contracts ...*Contract) *Contract {
	b := newBuilder()
	for _, c := range contracts {
		if c == nil {
			continue
		}
		overlay(b.services, c.services)
		overlay(b.messages, c.messages)
		overlay(b.enums, c.enums)
	}
	return &b.Contract
}

func overlay[T any](table, more map[string]*T) {
	for name, element := range more {
		if table[name] == nil {
			table[name] = element
		}
	}
}

// DescriptorSet returns the contract as a serialized google.protobuf.FileDescriptorSet, without protobuf's own files; nil
// where it was not made of one. The caller must not change it.
func (c *Contract) DescriptorSet() []byte {
	if c == nil {
		return nil
	}
	return c.set
}

// Services returns the full names of the services, in order.
func (c *Contract) Services() []string {
	if c == nil {
		return nil
	}
	names := make([]string, 0, len(c.services))
	for name := range c.services {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Has says whether the contract has a service of that full name.
func (c *Contract) Has(service string) bool {
	return c != nil && c.services[service] != nil
}

// builder gathers the elements of a contract within the bounds.
type builder struct {
	Contract
	elements int
	home     string // the package that is being read
	// pending are the references that are yet to be resolved: relative ones, which only make sense once all names are
	// known.
	pending []reference
}

// reference is a type name as it was written, and from where it is seen.
type reference struct {
	target *string
	scope  string
	home   string // the package
}

func newBuilder() *builder {
	return &builder{Contract: Contract{
		services: make(map[string]*service), messages: make(map[string]*message), enums: make(map[string]*enum),
	}}
}

// count takes note of one more element.
func (b *builder) count() error {
	if b.elements++; b.elements > maxElements {
		return fmt.Errorf("it has more than %d elements", maxElements)
	}
	return nil
}

// fullName puts a name into its scope.
func fullName(scope, name string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("an element of %q has no name", Plain(scope))
	}
	if len(scope)+1+len(name) > maxName {
		return "", errLongName
	}
	if strings.Count(scope, ".")+1 >= maxParts {
		return "", errManyParts
	}
	if scope == "" {
		return name, nil
	}
	return scope + "." + name, nil
}

// declare puts an element into its table.
func declare[T any](table map[string]*T, name string, element *T) error {
	if table[name] != nil {
		return fmt.Errorf("%s is defined twice", Plain(name))
	}
	table[name] = element
	return nil
}

// refer notes a reference for later, where it is not absolute.
func (b *builder) refer(target *string, scope string) error {
	if len(*target) > maxName {
		return errLongName
	}
	if !strings.HasPrefix(*target, ".") {
		b.pending = append(b.pending, reference{target: target, scope: scope, home: b.home})
	}
	return nil
}

// finish resolves what is pending, from the innermost scope outwards, and returns the contract. The names are bounded, so
// is the work for each.
func (b *builder) finish(set []byte) *Contract {
	for _, r := range b.pending {
		*r.target = b.resolve(r)
	}
	for _, s := range b.services {
		slices.SortStableFunc(s.methods, func(x, y method) int { return strings.Compare(x.name, y.name) })
	}
	for _, m := range b.messages {
		slices.SortStableFunc(m.fields, func(x, y field) int { return cmp.Compare(x.number, y.number) })
	}
	for _, e := range b.enums {
		slices.SortStableFunc(e.values, func(x, y enumValue) int { return cmp.Compare(x.number, y.number) })
		e.values = slices.CompactFunc(e.values, func(x, y enumValue) bool { return x.number == y.number })
	}
	c := b.Contract
	c.set = set
	return &c
}

// resolve finds the absolute name of a relative reference. One that leads nowhere most likely means the same package, or
// another one when it has dots.
func (b *builder) resolve(r reference) string {
	name := *r.target
	full := make([]byte, 0, maxName+1+len(name))
	for scope := r.scope; scope != ""; scope = outer(scope) {
		full = append(append(append(full[:0], scope...), '.'), name...)
		if b.messages[string(full)] != nil || b.enums[string(full)] != nil {
			return "." + string(full)
		}
	}
	if b.messages[name] != nil || b.enums[name] != nil || r.home == "" || strings.Contains(name, ".") {
		return "." + name
	}
	return "." + r.home + "." + name
}

// outer is the scope around a scope.
func outer(scope string) string { return scope[:max(0, strings.LastIndexByte(scope, '.'))] }

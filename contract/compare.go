// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package contract

import (
	"fmt"
	"slices"
	"strings"
)

// Extent says which services a comparison is about.
type Extent int

const (
	// SharedServices compares the services that both sides have: one that only is needed is no removal. For contracts that
	// do not say all that a server serves.
	SharedServices Extent = iota
	// AllServices also reports the services that are needed and not offered. For contracts that are complete.
	AllServices
)

// ownOfGRPC are gRPC's own services, such as health and reflection. They are nobody's contract.
const ownOfGRPC = "grpc."

// Compare says what is needed and not offered: of each service its methods, their messages, and whatever those are made of,
// fields and enum values by number. What is offered beyond that is fine. A message that the needed contract names without
// defining it is not compared. It takes time in proportion to the needed contract.
func Compare(needed, offered *Contract, extent Extent) *Report {
	if needed == nil {
		needed = &Contract{}
	}
	if offered == nil {
		offered = &Contract{}
	}
	c := comparison{needed: needed, offered: offered, met: make(map[string]bool)}
	for _, name := range needed.Services() {
		if strings.HasPrefix(name, ownOfGRPC) {
			continue
		}
		if s := offered.services[name]; s != nil {
			c.service(needed.services[name], s)
		} else if extent == AllServices {
			c.report.add(ServiceRemoved, name, "the service is missing")
		}
	}
	return &c.report
}

// comparison is one run of Compare.
type comparison struct {
	needed, offered *Contract
	report          Report
	met             map[string]bool // types that were compared, or wait for it
	waiting         []string        // a list and no recursion: types may refer to each other in any number and in circles
}

func (c *comparison) service(needed, offered *service) {
	for _, m := range needed.methods {
		path := needed.name + "/" + m.name
		i, found := slices.BinarySearchFunc(offered.methods, m.name, func(m method, name string) int {
			return strings.Compare(m.name, name)
		})
		if !found {
			c.report.add(MethodRemoved, path, "the method is missing")
			continue
		}
		c.method(path, m, offered.methods[i])
	}
	for len(c.waiting) > 0 {
		last := len(c.waiting) - 1
		name := c.waiting[last]
		c.waiting = c.waiting[:last]
		c.definition(name)
	}
}

func (c *comparison) method(path string, needed, offered method) {
	if needed.request == offered.request {
		c.meet(needed.request)
	} else {
		c.report.add(RequestChanged, path, fmt.Sprintf("it takes %s where %s is needed",
			bare(offered.request), bare(needed.request)))
	}
	if needed.response == offered.response {
		c.meet(needed.response)
	} else {
		c.report.add(ResponseChanged, path, fmt.Sprintf("it returns %s where %s is needed",
			bare(offered.response), bare(needed.response)))
	}
	if needed.streamsIn != offered.streamsIn || needed.streamsOut != offered.streamsOut {
		c.report.add(StreamingChanged, path, fmt.Sprintf("it is %s where %s is needed", shape(offered), shape(needed)))
	}
}

// bare is a type without the dot that makes it absolute.
func bare(typ string) string { return strings.TrimPrefix(typ, ".") }

func shape(m method) string {
	switch {
	case m.streamsIn && m.streamsOut:
		return "bidirectional streaming"
	case m.streamsIn:
		return "client streaming"
	case m.streamsOut:
		return "server streaming"
	default:
		return "unary"
	}
}

// meet has a type compared that both sides name, once.
func (c *comparison) meet(typ string) {
	name, ok := strings.CutPrefix(strings.TrimPrefix(typ, groupPrefix), ".")
	if ok && !c.met[name] {
		c.met[name] = true
		c.waiting = append(c.waiting, name)
	}
}

// definition compares what the two sides say of a type. One that only the needed side leaves open says nothing; protobuf's
// own need not be said.
func (c *comparison) definition(name string) {
	switch m, e := c.needed.messages[name], c.needed.enums[name]; {
	case m != nil:
		offered := c.offered.messages[name]
		if offered == nil {
			c.report.add(MessageRemoved, name, "the message is missing")
			return
		}
		c.message(m, offered)
	case e != nil:
		offered := c.offered.enums[name]
		if offered == nil {
			c.report.add(EnumRemoved, name, "the enum is missing")
			return
		}
		c.enum(e, offered)
	}
}

func (c *comparison) message(needed, offered *message) {
	rest := offered.fields
	for _, f := range needed.fields {
		for len(rest) > 0 && rest[0].number < f.number {
			rest = rest[1:]
		}
		path := needed.name + "." + f.name
		if len(rest) == 0 || rest[0].number != f.number {
			c.report.add(FieldRemoved, path, fmt.Sprintf("field %d is missing", f.number))
			continue
		}
		c.field(path, f, rest[0])
	}
}

func (c *comparison) field(path string, needed, offered field) {
	if needed.typ == offered.typ {
		c.meet(needed.typ)
	} else {
		c.report.add(FieldRetyped, path, fmt.Sprintf("field %d is %s where %s is needed",
			needed.number, bare(offered.typ), bare(needed.typ)))
	}
	switch {
	case needed.label != offered.label:
		c.report.add(FieldRelabelled, path, fmt.Sprintf("field %d is %v where %v is needed",
			needed.number, offered.label, needed.label))
	case needed.oneof != offered.oneof:
		c.report.add(FieldRelabelled, path, fmt.Sprintf("field %d is %s where it is needed %s",
			needed.number, place(offered.oneof), place(needed.oneof)))
	}
	if needed.name != offered.name {
		c.report.add(FieldRenamed, path, fmt.Sprintf("field %d is called %s", needed.number, offered.name))
	}
}

// place says where a field stands.
func place(oneof string) string {
	if oneof == "" {
		return "in no oneof"
	}
	return "in oneof " + oneof
}

func (c *comparison) enum(needed, offered *enum) {
	rest := offered.values
	for _, v := range needed.values {
		for len(rest) > 0 && rest[0].number < v.number {
			rest = rest[1:]
		}
		path := needed.name + "." + v.name
		switch {
		case len(rest) == 0 || rest[0].number != v.number:
			c.report.add(EnumValueRemoved, path, fmt.Sprintf("value %d is missing", v.number))
		case rest[0].name != v.name:
			c.report.add(EnumValueRenamed, path, fmt.Sprintf("value %d is called %s", v.number, rest[0].name))
		}
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package contract_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/evenkeel-go/evenkeel/contract"
)

// Short names for what descriptors are made of.
const (
	typeString  = descriptorpb.FieldDescriptorProto_TYPE_STRING
	typeInt32   = descriptorpb.FieldDescriptorProto_TYPE_INT32
	typeMessage = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	typeEnum    = descriptorpb.FieldDescriptorProto_TYPE_ENUM
	typeGroup   = descriptorpb.FieldDescriptorProto_TYPE_GROUP
	singular    = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
	required    = descriptorpb.FieldDescriptorProto_LABEL_REQUIRED
	repeated    = descriptorpb.FieldDescriptorProto_LABEL_REPEATED
)

func fieldOf(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type, typeName string) *descriptorpb.FieldDescriptorProto {
	f := &descriptorpb.FieldDescriptorProto{
		Name: proto.String(name), Number: proto.Int32(number), Label: singular.Enum(), Type: kind.Enum(),
	}
	if typeName != "" {
		f.TypeName = proto.String(typeName)
	}
	return f
}

func messageOf(name string, fields ...*descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
	return &descriptorpb.DescriptorProto{Name: proto.String(name), Field: fields}
}

func enumOf(name string, values ...string) *descriptorpb.EnumDescriptorProto {
	e := &descriptorpb.EnumDescriptorProto{Name: proto.String(name)}
	for i, v := range values {
		e.Value = append(e.Value, &descriptorpb.EnumValueDescriptorProto{Name: proto.String(v), Number: proto.Int32(int32(i))})
	}
	return e
}

func methodOf(name, request, response string) *descriptorpb.MethodDescriptorProto {
	return &descriptorpb.MethodDescriptorProto{
		Name: proto.String(name), InputType: proto.String(request), OutputType: proto.String(response),
	}
}

// shop is a contract with one of everything.
func shop() *descriptorpb.FileDescriptorProto {
	item := messageOf("Item",
		fieldOf("name", 1, typeString, ""), fieldOf("count", 2, typeInt32, ""),
		fieldOf("colour", 3, typeEnum, ".shop.Colour"), fieldOf("part_of", 4, typeMessage, ".shop.Item"), // a circle
		fieldOf("box", 5, typeMessage, ".shop.Item.Box"), fieldOf("tags", 6, typeMessage, ".shop.Item.TagsEntry"),
		fieldOf("cash", 7, typeInt32, ""), fieldOf("card", 8, typeString, ""), fieldOf("note", 9, typeString, ""),
	)
	item.Field[5].Label = repeated.Enum()
	item.Field[6].OneofIndex, item.Field[7].OneofIndex = proto.Int32(0), proto.Int32(0)
	item.OneofDecl = []*descriptorpb.OneofDescriptorProto{{Name: proto.String("payment")}}
	tags := messageOf("TagsEntry", fieldOf("key", 1, typeString, ""), fieldOf("value", 2, typeInt32, ""))
	tags.Options = &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)}
	item.NestedType = []*descriptorpb.DescriptorProto{messageOf("Box", fieldOf("size", 1, typeInt32, "")), tags}
	watch := methodOf("Watch", ".shop.Order", ".shop.Item")
	watch.ServerStreaming = proto.Bool(true)
	return &descriptorpb.FileDescriptorProto{
		Name: proto.String("shop.proto"), Package: proto.String("shop"), Syntax: proto.String("proto3"),
		Dependency: []string{"google/protobuf/empty.proto"},
		MessageType: []*descriptorpb.DescriptorProto{
			messageOf("Order", fieldOf("id", 1, typeString, "")), item,
			messageOf("Idle", fieldOf("id", 1, typeString, "")), // in no method
		},
		EnumType: []*descriptorpb.EnumDescriptorProto{enumOf("Colour", "NONE", "RED", "BLUE")},
		Service: []*descriptorpb.ServiceDescriptorProto{
			{Name: proto.String("Sales"), Method: []*descriptorpb.MethodDescriptorProto{
				methodOf("Buy", ".shop.Order", ".shop.Item"), watch, methodOf("Close", ".shop.Order", ".google.protobuf.Empty"),
			}},
			{Name: proto.String("Returns"), Method: []*descriptorpb.MethodDescriptorProto{methodOf("Take", ".shop.Order", ".shop.Order")}},
		},
	}
}

// changed is a shop after a change.
func changed(change func(*descriptorpb.FileDescriptorProto)) *descriptorpb.FileDescriptorProto {
	file := shop()
	change(file)
	return file
}

// parsed reads files from their bytes.
func parsed(t *testing.T, files ...*descriptorpb.FileDescriptorProto) *contract.Contract {
	t.Helper()
	raw, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: files})
	if err != nil {
		t.Fatal(err)
	}
	c, err := contract.Parse(raw)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	return c
}

// printed sends a contract through its text.
func printed(t *testing.T, c *contract.Contract) *contract.Contract {
	t.Helper()
	text, err := c.Schema()
	if err != nil {
		t.Fatalf("schema: %v", err)
	}
	again, err := contract.ParseSchema(text)
	if err != nil {
		t.Fatalf("parse the schema: %v\n%s", err, text)
	}
	return again
}

// found renders a report as "kind path: detail".
func found(r *contract.Report) string {
	var lines []string
	for _, d := range r.Differences {
		lines = append(lines, d.Kind.String()+" "+d.String())
	}
	return strings.Join(lines, "\n")
}

// Every change is looked at from both sides: the old client with the new server, and the new client with the old server.
func TestEveryKindOfChangeInBothDirections(t *testing.T) {
	t.Parallel()
	type file = descriptorpb.FileDescriptorProto
	item := func(f *file) *descriptorpb.DescriptorProto { return f.MessageType[1] }
	tests := []struct {
		name   string
		change func(*file)
		// What an old client misses at a new server, and a new client at an old server.
		forward, back string
		noText        bool // proto3 source cannot say it
	}{
		{name: "nothing", change: func(*file) {}},
		{
			name:   "service",
			change: func(f *file) { f.Service = f.Service[:1] },
			// Services that one side lacks are for AllServices.
		},
		{
			name:    "method",
			change:  func(f *file) { f.Service[0].Method = f.Service[0].Method[1:] },
			forward: "method removed shop.Sales/Buy: the method is missing",
		},
		{
			name:    "request",
			change:  func(f *file) { f.Service[0].Method[0].InputType = proto.String(".shop.Item") },
			forward: "request changed shop.Sales/Buy: it takes shop.Item where shop.Order is needed",
			back:    "request changed shop.Sales/Buy: it takes shop.Order where shop.Item is needed",
		},
		{
			name:    "response",
			change:  func(f *file) { f.Service[0].Method[0].OutputType = proto.String(".google.protobuf.Empty") },
			forward: "response changed shop.Sales/Buy: it returns google.protobuf.Empty where shop.Item is needed",
			back:    "response changed shop.Sales/Buy: it returns shop.Item where google.protobuf.Empty is needed",
		},
		{
			name:    "server streaming",
			change:  func(f *file) { f.Service[0].Method[1].ServerStreaming = nil },
			forward: "streaming changed shop.Sales/Watch: it is unary where server streaming is needed",
			back:    "streaming changed shop.Sales/Watch: it is server streaming where unary is needed",
		},
		{
			name:    "client streaming",
			change:  func(f *file) { f.Service[0].Method[1].ClientStreaming = proto.Bool(true) },
			forward: "streaming changed shop.Sales/Watch: it is bidirectional streaming where server streaming is needed",
			back:    "streaming changed shop.Sales/Watch: it is server streaming where bidirectional streaming is needed",
		},
		{
			name:    "message that a method still names",
			change:  func(f *file) { f.MessageType = f.MessageType[1:] },
			forward: "message removed shop.Order: the message is missing",
		},
		{name: "message that no method has", change: func(f *file) { f.MessageType = f.MessageType[:2] }},
		{
			name:    "field",
			change:  func(f *file) { f.MessageType[0].Field = nil },
			forward: "field removed shop.Order.id: field 1 is missing",
		},
		{
			name: "field reserved",
			change: func(f *file) {
				f.MessageType[0].Field = nil
				f.MessageType[0].ReservedRange = []*descriptorpb.DescriptorProto_ReservedRange{{Start: proto.Int32(1), End: proto.Int32(2)}}
			},
			forward: "field removed shop.Order.id: field 1 is missing",
		},
		{
			name:    "field of a nested message",
			change:  func(f *file) { item(f).NestedType[0].Field[0].Type = typeString.Enum() },
			forward: "field retyped shop.Item.Box.size: field 1 is string where int32 is needed",
			back:    "field retyped shop.Item.Box.size: field 1 is int32 where string is needed",
		},
		{
			name:    "value of a map",
			change:  func(f *file) { item(f).NestedType[1].Field[1].Type = typeString.Enum() },
			forward: "field retyped shop.Item.TagsEntry.value: field 2 is string where int32 is needed",
			back:    "field retyped shop.Item.TagsEntry.value: field 2 is int32 where string is needed",
		},
		{
			name: "number of a field",
			change: func(f *file) {
				f.MessageType[0].Field[0].Number = proto.Int32(7)
			},
			forward: "field removed shop.Order.id: field 1 is missing",
			back:    "field removed shop.Order.id: field 7 is missing",
		},
		{
			name:    "type of a field",
			change:  func(f *file) { item(f).Field[0].Type = descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum() },
			forward: "field retyped shop.Item.name: field 1 is bytes where string is needed",
			back:    "field retyped shop.Item.name: field 1 is string where bytes is needed",
		},
		{
			name:    "message of a field",
			change:  func(f *file) { item(f).Field[3].TypeName = proto.String(".shop.Order") },
			forward: "field retyped shop.Item.part_of: field 4 is shop.Order where shop.Item is needed",
			back:    "field retyped shop.Item.part_of: field 4 is shop.Item where shop.Order is needed",
		},
		{
			name:    "message to group",
			change:  func(f *file) { item(f).Field[3].Type = typeGroup.Enum() },
			forward: "field retyped shop.Item.part_of: field 4 is group .shop.Item where shop.Item is needed",
			back:    "field retyped shop.Item.part_of: field 4 is shop.Item where group .shop.Item is needed",
			noText:  true,
		},
		{
			name:    "singular to repeated",
			change:  func(f *file) { item(f).Field[1].Label = repeated.Enum() },
			forward: "field relabelled shop.Item.count: field 2 is repeated where singular is needed",
			back:    "field relabelled shop.Item.count: field 2 is singular where repeated is needed",
		},
		{
			name:    "singular to required",
			change:  func(f *file) { item(f).Field[1].Label = required.Enum() },
			forward: "field relabelled shop.Item.count: field 2 is required where singular is needed",
			back:    "field relabelled shop.Item.count: field 2 is singular where required is needed",
			noText:  true,
		},
		{
			name: "singular to optional",
			change: func(f *file) {
				item(f).Field[1].OneofIndex, item(f).Field[1].Proto3Optional = proto.Int32(1), proto.Bool(true)
				item(f).OneofDecl = append(item(f).OneofDecl, &descriptorpb.OneofDescriptorProto{Name: proto.String("_count")})
			}, // the wire is the same
		},
		{
			name:    "into a oneof",
			change:  func(f *file) { item(f).Field[8].OneofIndex = proto.Int32(0) },
			forward: "field relabelled shop.Item.note: field 9 is in oneof payment where it is needed in no oneof",
			back:    "field relabelled shop.Item.note: field 9 is in no oneof where it is needed in oneof payment",
		},
		{
			name:    "name of a field",
			change:  func(f *file) { item(f).Field[0].Name = proto.String("title") },
			forward: "field renamed shop.Item.name: field 1 is called title",
			back:    "field renamed shop.Item.title: field 1 is called name",
		},
		{
			name:    "enum",
			change:  func(f *file) { f.EnumType = nil },
			forward: "enum removed shop.Colour: the enum is missing",
		},
		{
			name:    "value of an enum",
			change:  func(f *file) { f.EnumType[0].Value = f.EnumType[0].Value[:2] },
			forward: "enum value removed shop.Colour.BLUE: value 2 is missing",
		},
		{
			name:    "name of an enum's value",
			change:  func(f *file) { f.EnumType[0].Value[1].Name = proto.String("CRIMSON") },
			forward: "enum value renamed shop.Colour.RED: value 1 is called CRIMSON",
			back:    "enum value renamed shop.Colour.CRIMSON: value 1 is called RED",
		},
		{
			name: "second name of an enum's value",
			change: func(f *file) {
				f.EnumType[0].Value = append(f.EnumType[0].Value, &descriptorpb.EnumValueDescriptorProto{Name: proto.String("CRIMSON"), Number: proto.Int32(1)})
			}, // the first name is the one that counts
		},
		{
			name: "additions",
			change: func(f *file) {
				f.Service = append(f.Service, &descriptorpb.ServiceDescriptorProto{Name: proto.String("Stock")})
				f.MessageType[0].Field = append(f.MessageType[0].Field, fieldOf("at", 2, typeInt32, ""))
				f.EnumType[0].Value = append(f.EnumType[0].Value, &descriptorpb.EnumValueDescriptorProto{Name: proto.String("GREEN"), Number: proto.Int32(3)})
				f.Service[0].Method = append(f.Service[0].Method, methodOf("Ask", ".shop.Order", ".shop.Item"))
			},
			back: "method removed shop.Sales/Ask: the method is missing\n" +
				"enum value removed shop.Colour.GREEN: value 3 is missing\n" +
				"field removed shop.Order.at: field 2 is missing",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before, after := parsed(t, shop()), parsed(t, changed(tt.change))
			check := func(how, want string, needed, offered *contract.Contract) {
				t.Helper()
				if got := found(contract.Compare(needed, offered, contract.SharedServices)); !sameLines(got, want) {
					t.Errorf("%s: got\n%s\nwant\n%s", how, got, want)
				}
			}
			check("old client, new server", tt.forward, before, after)
			check("new client, old server", tt.back, after, before)
			if !tt.noText {
				check("old client, text of the new server", tt.forward, before, printed(t, after))
				check("new client, text of the old server", tt.back, after, printed(t, before))
			}
		})
	}
}

// sameLines says whether two texts have the same lines, in whatever order.
func sameLines(a, b string) bool {
	count := make(map[string]int)
	for _, line := range strings.Split(a, "\n") {
		count[line]++
	}
	for _, line := range strings.Split(b, "\n") {
		count[line]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

func TestAServiceThatOnlyTheClientHasIsARemovalInACompleteContractOnly(t *testing.T) {
	t.Parallel()
	needed := parsed(t, shop())
	offered := parsed(t, changed(func(f *descriptorpb.FileDescriptorProto) { f.Service = f.Service[:1] }))
	if got := found(contract.Compare(needed, offered, contract.SharedServices)); got != "" {
		t.Errorf("shared services: got %s, want nothing", got)
	}
	want := "service removed shop.Returns: the service is missing"
	if got := found(contract.Compare(needed, offered, contract.AllServices)); got != want {
		t.Errorf("all services: got %s, want %s", got, want)
	}
	if got := found(contract.Compare(offered, needed, contract.AllServices)); got != "" {
		t.Errorf("a service more: got %s, want nothing", got)
	}
	if got := contract.Compare(nil, nil, contract.AllServices); !got.Compatible() {
		t.Errorf("nothing needed of nothing: got %s", found(got))
	}
	if got := found(contract.Compare(needed, nil, contract.AllServices)); !strings.Contains(got, "shop.Returns") || !strings.Contains(got, "shop.Sales") {
		t.Errorf("nothing offered: got %s, want both services", got)
	}
}

func TestServicesOfGRPCItselfAreNoContract(t *testing.T) {
	t.Parallel()
	health := changed(func(f *descriptorpb.FileDescriptorProto) { f.Package = proto.String("grpc.health.v1") })
	if got := contract.Compare(parsed(t, health), nil, contract.AllServices); !got.Compatible() {
		t.Errorf("got %s, want nothing", found(got))
	}
}

func TestAMessageThatTheClientLeavesOpenIsNotCompared(t *testing.T) {
	t.Parallel()
	open := changed(func(f *descriptorpb.FileDescriptorProto) { f.MessageType, f.EnumType = nil, nil })
	if got := contract.Compare(parsed(t, open), parsed(t, shop()), contract.AllServices); !got.Compatible() {
		t.Errorf("got %s, want nothing", found(got))
	}
}

func TestALongReportIsCutAndCounted(t *testing.T) {
	t.Parallel()
	const fields = 500
	many := changed(func(f *descriptorpb.FileDescriptorProto) {
		for i := range fields {
			f.MessageType[0].Field = append(f.MessageType[0].Field, fieldOf("more", int32(i+10), typeInt32, ""))
		}
	})
	report := contract.Compare(parsed(t, many), parsed(t, shop()), contract.SharedServices)
	if got, want := len(report.Differences), 100; got != want {
		t.Errorf("differences: got %d, want %d", got, want)
	}
	if got, want := report.More, fields-100; got != want {
		t.Errorf("more: got %d, want %d", got, want)
	}
	lines := report.Lines()
	if got, want := lines[len(lines)-1], "and 400 more"; got != want {
		t.Errorf("last line: got %q, want %q", got, want)
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package contract_test

import (
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/evenkeel-go/evenkeel/contract"
)

// Names may be words of the language, and proto2 has groups, for which proto3 has no word.
func TestWhatSchemaWritesIsReadAsTheSame(t *testing.T) {
	t.Parallel()
	var set descriptorpb.FileDescriptorSet
	if err := prototext.Unmarshal([]byte(`file { name: "a.proto" package: "x" syntax: "proto2"
		message_type { name: "M"
			field { name: "g" number: 1 label: LABEL_OPTIONAL type: TYPE_GROUP type_name: ".x.M.G" }
			field { name: "gs" number: 2 label: LABEL_REPEATED type: TYPE_GROUP type_name: ".x.M.G" }
			field { name: "group" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".x.group" }
			nested_type { name: "G" field { name: "a" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 } } }
		message_type { name: "group" field { name: "r" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".x.reserved" }
			field { name: "s" number: 2 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".x.option" } }
		message_type { name: "reserved" field { name: "i" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".x.int32" } }
		message_type { name: "int32" }
		message_type { name: "stream" }
		enum_type { name: "option" value { name: "none" number: 0 } }
		service { name: "S" method { name: "A" input_type: ".x.M" output_type: ".x.stream" } }
	}`), &set); err != nil {
		t.Fatal(err)
	}
	raw, err := proto.Marshal(&set)
	if err != nil {
		t.Fatal(err)
	}
	written, err := contract.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	text, err := written.Schema()
	if err != nil {
		t.Fatal(err)
	}
	read, err := contract.ParseSchema(text)
	if err != nil {
		t.Fatalf("what was written cannot be read: %v\n%s", err, text)
	}
	for name, report := range map[string]*contract.Report{
		"in what was read":    contract.Compare(written, read, contract.AllServices),
		"in what was written": contract.Compare(read, written, contract.AllServices),
	} {
		if lines := report.Lines(); len(lines) > 0 {
			t.Errorf("missing %s: %q\n%s", name, lines, text)
		}
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package contract_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/contract/hostpb"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares bytes with a file in testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; run the test with -update if that is meant\ngot:\n%s", path, got)
	}
}

func TestTheDescriptorSetIsCanonicalAndSelfContained(t *testing.T) {
	t.Parallel()
	raw := contract.DescriptorSet()
	golden(t, "evenkeel.desc", raw)
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(raw, set); err != nil {
		t.Fatalf("unmarshal: %v", err)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatalf("link the files with each other alone: %v", err)
	}
	for _, name := range []string{clientspb.ConnectionService_ServiceDesc.ServiceName, hostpb.Server_ServiceDesc.ServiceName} {
		if _, err := files.FindDescriptorByName(protoreflect.FullName(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Stock clients of before CheckCompatibility compare the lines of this text with those that their own generator makes.
func TestTheSchemaIsWrittenAsStockServersWriteIt(t *testing.T) {
	t.Parallel()
	text, err := contract.Connections().Schema()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "connections.txt", []byte(text))
	for _, line := range []string{
		"rpc Connect (ConnectRequest) returns (stream .Cratis.Chronicle.Contracts.Clients.ConnectionKeepAlive);",
		"rpc ConnectionKeepAlive (.Cratis.Chronicle.Contracts.Clients.ConnectionKeepAlive) returns (.google.protobuf.Empty);",
		"rpc ObserveConnectedClients (.google.protobuf.Empty) returns (stream IEnumerable_ConnectedClient);",
		"rpc CheckCompatibility (CompatibilityRequest) returns (CompatibilityResponse);",
	} {
		if !strings.Contains(text, "\n   "+line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
}

func TestASessionNeedsWhatOlderServersHave(t *testing.T) {
	t.Parallel()
	older, err := contract.ParseSchema(`syntax = "proto3";
		package Cratis.Chronicle.Contracts.Clients;
		message ConnectRequest { string ConnectionId = 1; string ClientVersion = 2; bool IsRunningWithDebugger = 3; }
		message ConnectionKeepAlive { string ConnectionId = 1; }
		service ConnectionService {
			rpc Connect (ConnectRequest) returns (stream .Cratis.Chronicle.Contracts.Clients.ConnectionKeepAlive);
			rpc ConnectionKeepAlive (.Cratis.Chronicle.Contracts.Clients.ConnectionKeepAlive) returns (.google.protobuf.Empty);
		}`)
	if err != nil {
		t.Fatal(err)
	}
	for name, offered := range map[string]*contract.Contract{"an older server": older, "our own": contract.Connections()} {
		if got := contract.Compare(contract.Session(), offered, contract.AllServices); !got.Compatible() {
			t.Errorf("%s: got %s, want nothing missing", name, found(got))
		}
	}
	if got := contract.Compare(contract.Session(), contract.Host(), contract.AllServices); got.Compatible() {
		t.Error("a server without sessions fits")
	}
}

func TestWhatAClientNeedsIsASessionAndItsOwnContract(t *testing.T) {
	t.Parallel()
	needs := func(c *contract.Contract) []string {
		t.Helper()
		got, err := contract.Needs(c)
		if err != nil {
			t.Fatalf("needs: %v", err)
		}
		again, err := contract.Parse(got.DescriptorSet())
		if err != nil || !slices.Equal(again.Services(), got.Services()) {
			t.Errorf("sent: %v, %v, want %v", again.Services(), err, got.Services())
		}
		return got.Services()
	}
	const connections = "Cratis.Chronicle.Contracts.Clients.ConnectionService"
	if got, want := needs(nil), []string{connections}; !slices.Equal(got, want) {
		t.Errorf("without its own: got %v, want %v", got, want)
	}
	if got, want := needs(parsed(t, shop())), []string{connections, "shop.Returns", "shop.Sales"}; !slices.Equal(got, want) {
		t.Errorf("with its own: got %v, want %v", got, want)
	}
	all, err := contract.New(clientspb.File_clients_proto, hostpb.File_host_proto)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := contract.Needs(all); err != nil || got != all {
		t.Errorf("one that has the ConnectionService: got %v, %v, want itself", got.Services(), err)
	}
	clash := &descriptorpb.FileDescriptorProto{
		Package:     proto.String("Cratis.Chronicle.Contracts.Clients"),
		MessageType: []*descriptorpb.DescriptorProto{messageOf("ConnectRequest")},
	}
	if _, err := contract.Needs(parsed(t, clash)); err == nil || !strings.Contains(err.Error(), "ConnectRequest is defined twice") {
		t.Errorf("a message of ours with another meaning: got %v", err)
	}
}

func TestProtobufsOwnFilesAreNotSent(t *testing.T) {
	t.Parallel()
	c, err := contract.New(clientspb.File_clients_proto)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(c.DescriptorSet(), []byte("empty.proto\x12\x0fgoogle.protobuf")) {
		t.Error("google/protobuf/empty.proto is in the set: a stock server would look for it among its own")
	}
	if got := contract.Compare(c, contract.Connections(), contract.AllServices); !got.Compatible() {
		t.Errorf("got %s, want the same contract", found(got))
	}
}

func TestContractsAreJoinedAndLaidOverEachOther(t *testing.T) {
	t.Parallel()
	first, second := parsed(t, shop()), parsed(t, changed(func(f *descriptorpb.FileDescriptorProto) { f.MessageType[0].Field = nil }))
	if joined, err := contract.Join(first, nil, first); err != nil || len(joined.Services()) != 2 {
		t.Errorf("join with itself: got %v, %v", joined.Services(), err)
	}
	if _, err := contract.Join(first, second); err == nil {
		t.Error("two contracts that contradict each other were joined")
	}
	if _, err := contract.Join(first, printed(t, first)); err == nil {
		t.Error("a contract without a descriptor set was joined")
	}
	if got := contract.Compare(first, contract.Overlay(first, second), contract.AllServices); !got.Compatible() {
		t.Errorf("the first does not count: %s", found(got))
	}
	if got := contract.Compare(first, contract.Overlay(nil, second, first), contract.AllServices); got.Compatible() {
		t.Error("the second counts")
	}
	if _, err := contract.Overlay(first).Schema(); err == nil {
		t.Error("an overlay has a schema")
	}
	if _, err := contract.New(nil); err == nil {
		t.Error("a file that is nil made a contract")
	}
}

func TestTheErrorOfAReportIsTyped(t *testing.T) {
	t.Parallel()
	if err := contract.Compare(nil, nil, contract.AllServices).Err(); err != nil {
		t.Errorf("compatible: got %v, want no error", err)
	}
	err := contract.Compare(parsed(t, shop()), nil, contract.AllServices).Err()
	incompatible, ok := errors.AsType[*contract.IncompatibleError](err)
	if !ok || !errors.Is(err, contract.ErrIncompatible) || len(incompatible.Incompatibilities) != 2 {
		t.Fatalf("got %v, want an *IncompatibleError with both services", err)
	}
	want := "the server's contract does not fit this client: shop.Returns: the service is missing; shop.Sales: the service is missing"
	if got := err.Error(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for kind := contract.ServiceRemoved; kind <= contract.EnumValueRenamed; kind++ {
		if strings.HasPrefix(kind.String(), "kind ") {
			t.Errorf("%v has no name", kind)
		}
	}
	if got, want := contract.Kind(99).String(), "kind 99"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// store is about what the contract of a whole event store is: 20 services, 600 messages, 4000 fields.
func store(tb testing.TB) []byte {
	tb.Helper()
	var files []*descriptorpb.FileDescriptorProto
	for range 20 {
		file := shop()
		file.Package = proto.String("store.p" + string(rune('a'+len(files))))
		file.Name = proto.String(file.GetPackage() + ".proto")
		for i := range 28 {
			m := messageOf("Message" + string(rune('A'+i)))
			for n := range 7 {
				m.Field = append(m.Field, fieldOf("SomeFieldName"+string(rune('a'+n)), int32(n+1), typeString, ""))
			}
			file.MessageType = append(file.MessageType, m)
			file.Service[0].Method = append(file.Service[0].Method, methodOf("Do"+m.GetName(), m.GetName(), m.GetName()))
		}
		files = append(files, file)
	}
	return setOf(tb, files...)
}

func BenchmarkCheck(b *testing.B) {
	set := store(b)
	offered, err := contract.Parse(set)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(set)))
	b.ReportAllocs()
	for b.Loop() {
		needed, err := contract.Parse(set)
		if err != nil {
			b.Fatal(err)
		}
		if report := contract.Compare(needed, offered, contract.AllServices); !report.Compatible() {
			b.Fatal(found(report))
		}
	}
}

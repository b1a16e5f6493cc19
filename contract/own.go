// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package contract

import (
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/contract/hostpb"
)

// sessionFile is the path of the file that says what a session needs. No other file has it.
const sessionFile = "evenkeel/session.proto"

// DescriptorSet returns the whole contract of this package, ConnectionService and Server, as a serialized
// google.protobuf.FileDescriptorSet with everything that its files import. The bytes are the same in every process of one
// version. The caller must not change them.
func DescriptorSet() []byte { return own().set }

// Connections returns the contract of the ConnectionService, as our server serves it.
func Connections() *Contract { return own().connections }

// Host returns the contract of the host service, of which our server serves a part: of the methods that stock servers have,
// the one that clients call.
func Host() *Contract { return own().host }

// Session returns what a client needs to hold a session: the methods Connect and ConnectionKeepAlive with the id that they
// carry. Older servers have had these, too; whatever else the messages say of a client, a server that does not know it
// passes over.
func Session() *Contract { return own().session }

// Needs returns what a client that has a contract of its own needs of a server: that, and a session. Where its own contract
// has the ConnectionService, that is what counts. A nil contract is none.
func Needs(program *Contract) (*Contract, error) {
	if program.Has(clientspb.ConnectionService_ServiceDesc.ServiceName) {
		return program, nil
	}
	return Join(Session(), program)
}

// ours are the contracts of this package.
type ours struct {
	set                        []byte
	connections, host, session *Contract
}

//nolint:gochecknoglobals // constants that take some work to find
var own = sync.OnceValue(func() ours {
	all := &descriptorpb.FileDescriptorSet{}
	for _, file := range []protoreflect.FileDescriptor{
		emptypb.File_google_protobuf_empty_proto, clientspb.File_clients_proto, hostpb.File_host_proto,
	} {
		all.File = append(all.File, protodesc.ToFileDescriptorProto(file))
	}
	clients, host := all.File[1], all.File[2]
	return ours{
		set:         marshal(all),
		connections: must(fromSet(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{clients}})),
		host:        must(fromSet(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{host}})),
		session:     must(fromSet(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{sessionOf(clients)}})),
	}
})

// sessionOf cuts the ConnectionService down to what a session needs.
func sessionOf(clients *descriptorpb.FileDescriptorProto) *descriptorpb.FileDescriptorProto {
	file := proto.CloneOf(clients)
	file.Name = proto.String(sessionFile)
	file.MessageType = slices.DeleteFunc(file.GetMessageType(), func(m *descriptorpb.DescriptorProto) bool {
		m.Field = slices.DeleteFunc(m.GetField(), func(f *descriptorpb.FieldDescriptorProto) bool {
			return f.GetName() != "ConnectionId"
		})
		return m.GetName() != "ConnectRequest" && m.GetName() != "ConnectionKeepAlive"
	})
	service := file.GetService()[0]
	service.Method = slices.DeleteFunc(service.GetMethod(), func(m *descriptorpb.MethodDescriptorProto) bool {
		return m.GetName() != "Connect" && m.GetName() != "ConnectionKeepAlive"
	})
	return file
}

// marshal and must are for the contracts that were compiled in: a fault in them shows in every test.
func marshal(set *descriptorpb.FileDescriptorSet) []byte {
	raw, _ := proto.MarshalOptions{Deterministic: true}.Marshal(set) // fails for invalid UTF-8 and missing required fields only
	return raw
}

func must(c *Contract, _ error) *Contract { return c }

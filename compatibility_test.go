// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/contract/hostpb"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
	"github.com/evenkeel-go/evenkeel/server"
)

// answers makes a server answer CheckCompatibility in one way.
func (s *memoryServer) answers(answer *clientspb.CompatibilityResponse, err error) {
	compat := func(context.Context, *clientspb.CompatibilityRequest) (*clientspb.CompatibilityResponse, error) {
		return answer, err
	}
	s.compat.Store(&compat)
}

// describes makes a server one of before CheckCompatibility, with that answer to GetDescriptorSet.
func (s *memoryServer) describes(text string, err error) {
	s.answers(nil, status.Error(codes.Unimplemented, "unknown method"))
	schema := func(context.Context) (string, error) { return text, err }
	s.schema.Store(&schema)
}

// olderSchema is how a server of before CheckCompatibility describes itself.
const olderSchema = `syntax = "proto3";
package Cratis.Chronicle.Contracts.Clients;
import "google/protobuf/empty.proto";

message ConnectRequest {
   string ConnectionId = 1;
   string ClientVersion = 2;
   bool IsRunningWithDebugger = 3;
}
message ConnectionKeepAlive {
   string ConnectionId = 1;
}
service ConnectionService {
   rpc Connect (ConnectRequest) returns (stream .Cratis.Chronicle.Contracts.Clients.ConnectionKeepAlive);
   rpc ConnectionKeepAlive (.Cratis.Chronicle.Contracts.Clients.ConnectionKeepAlive) returns (.google.protobuf.Empty);
}

syntax = "proto3";
package Cratis.Chronicle.Contracts.Host;
message ServerVersionInfo {
   string Version = 1;
}
service Server {
   rpc GetVersionInfo (.google.protobuf.Empty) returns (ServerVersionInfo);
}
`

// hostContract is a contract of the program's own.
func hostContract(t *testing.T) *contract.Contract {
	t.Helper()
	c, err := contract.New(hostpb.File_host_proto)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// An incompatible server costs a call, and the next candidate of the same attempt is taken.
func TestAnIncompatibleServerIsLeftForTheNextOne(t *testing.T) {
	t.Parallel()
	refusal := &clientspb.CompatibilityResponse{
		Incompatibilities: []string{"pkg.Service/Method: \x1b[31mgone", "two"}, ServerVersion: "16.1",
	}
	tests := []struct {
		name  string
		spoil func(*memoryServer)
		want  string
	}{
		{"it says so", func(s *memoryServer) { s.answers(refusal, nil) }, "(server version 16.1): pkg.Service/Method: ?[31mgone; two"},
		{"it does not say why", func(s *memoryServer) { s.answers(&clientspb.CompatibilityResponse{}, nil) }, "it does not say why"},
		{
			"its text lacks a method",
			func(s *memoryServer) {
				s.describes(strings.Replace(olderSchema, "rpc ConnectionKeepAlive", "rpc Ping", 1), nil)
			},
			"Cratis.Chronicle.Contracts.Clients.ConnectionService/ConnectionKeepAlive: the method is missing",
		},
		{
			"its text lacks a field of the program's contract",
			func(s *memoryServer) { s.describes(olderSchema, nil) },
			"Cratis.Chronicle.Contracts.Host.ServerVersionInfo.CommitSha: field 2 is missing",
		},
		{
			"its text lacks a service of the program's contract",
			func(s *memoryServer) { s.describes(olderSchema[:strings.LastIndex(olderSchema, "syntax")], nil) },
			"Cratis.Chronicle.Contracts.Host.Server: the service is missing",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newMemoryCluster(t, "a", "b")
				tt.spoil(c.servers["a:35000"])
				conn, events := c.connect(t, "chronicle://a,b", evenkeel.WithStrategy(inOrder{}), evenkeel.WithContract(hostContract(t)))
				failed := events.await(t, evenkeel.EventCandidateFailed, 1)
				why, _ := errors.AsType[*evenkeel.EndpointError](failed.Err)
				incompatible, ok := errors.AsType[*contract.IncompatibleError](failed.Err)
				if !ok || !errors.Is(failed.Err, evenkeel.ErrIncompatible) || why.Step != evenkeel.StepCompatibility {
					t.Fatalf("got %v, want an *IncompatibleError of the step compatibility", failed.Err)
				}
				if got := incompatible.Error(); !strings.Contains(got, tt.want) {
					t.Errorf("error is %q, want %q in it", got, tt.want)
				}
				if got := why.Error(); !strings.HasPrefix(got, "compatibility a:35000: ") || !strings.Contains(got, "skipCompatibilityCheck=true") {
					t.Errorf("error is %q, want the step, the server and what to do", got)
				}
				connected := events.await(t, evenkeel.EventConnected, 1)
				if got := conn.Server().Addr(); got != "b:35000" {
					t.Errorf("connected to %s, want the next one", got)
				}
				if d := connected.Time.Sub(failed.Time); d > 0 {
					t.Errorf("connected %v after the failure, want the same attempt", d)
				}
				if got := c.servers["a:35000"].connects.Load(); got != 0 {
					t.Errorf("%d Connect streams on the incompatible server, want none", got)
				}
			})
		})
	}
}

// A server may give as many reasons as a message holds, and write into them what it was sent.
func TestOfTheReasonsOfAServerTheFirstAreShownWithoutTheToken(t *testing.T) {
	t.Parallel()
	const count = 1_000_000
	reasons := make([]string, count)
	for i := range 100 {
		reasons[i] = strings.Repeat(" ", 200+i) + "Bearer s3cret.token and Bearer s3cret%2etoken"
	}
	own := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "s3cret.token"})
	tests := map[string]func(*memoryServer){
		"reasons": func(s *memoryServer) {
			s.answers(&clientspb.CompatibilityResponse{Incompatibilities: reasons, ServerVersion: "s3cret.token"}, nil)
		},
		"a type in its text": func(s *memoryServer) {
			s.describes(strings.Replace(olderSchema, "string Version = 1", "s3cret.token Version = 1", 1), nil)
		},
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newMemoryCluster(t, "a")
				spoil(c.servers["a:35000"])
				_, events := c.connect(t, "chronicle://a", evenkeel.WithTokenSource(own), evenkeel.WithContract(hostContract(t)))
				failed := events.await(t, evenkeel.EventCandidateFailed, 1)
				incompatible, ok := errors.AsType[*contract.IncompatibleError](failed.Err)
				if !ok {
					t.Fatalf("got %v, want an *IncompatibleError", failed.Err)
				}
				if text := fmt.Sprintf("%+v %v", *incompatible, failed.Err); strings.Contains(text, "s3cret") || !strings.Contains(text, "***") {
					t.Errorf("the token shows in %.300q", text)
				}
				if got := len(incompatible.Incompatibilities) + incompatible.More; name == "reasons" && got != count {
					t.Errorf("%d reasons are counted, want %d", got, count)
				}
			})
		})
	}
}

// A server that cannot be asked may be one that works: it is used, and an event says that nobody knows.
func TestAServerThatCannotBeAskedIsUsedAndAnEventSaysSo(t *testing.T) {
	t.Parallel()
	unimplemented := status.Error(codes.Unimplemented, "unknown method")
	tests := []struct {
		name  string
		spoil func(*memoryServer)
		want  string
	}{
		{"neither method", func(s *memoryServer) { s.answers(nil, unimplemented) }, "neither by CheckCompatibility nor by GetDescriptorSet"},
		{"no text", func(s *memoryServer) { s.describes("", nil) }, "has no services"},
		{"HTML", func(s *memoryServer) { s.describes("<!doctype html>", nil) }, "cannot be read"},
		{"the check fails", func(s *memoryServer) { s.answers(nil, status.Error(codes.Internal, "a\nb")) }, "CheckCompatibility: Internal: a; b"},
		{"the check is refused", func(s *memoryServer) { s.answers(nil, status.Error(codes.Unauthenticated, "who")) }, "Unauthenticated: who"},
		{"too many checks", func(s *memoryServer) { s.answers(nil, status.Error(codes.ResourceExhausted, "later")) }, "ResourceExhausted: later"},
		{"the text fails", func(s *memoryServer) { s.describes("", status.Error(codes.Unknown, "oops")) }, "GetDescriptorSet: Unknown: oops"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newMemoryCluster(t, "a")
				tt.spoil(c.servers["a:35000"])
				_, events := c.connect(t, "chronicle://a")
				events.await(t, evenkeel.EventConnected, 1)
				want := []evenkeel.EventKind{
					evenkeel.EventResolving, evenkeel.EventResolved, evenkeel.EventSelected, evenkeel.EventUnchecked, evenkeel.EventConnected,
				}
				if got := events.kinds(); !slices.Equal(got, want) {
					t.Errorf("events are %v, want %v", got, want)
				}
				unchecked := events.await(t, evenkeel.EventUnchecked, 1)
				if got := unchecked.String(); !strings.HasPrefix(got, "compatibility unknown a:35000: ") || !strings.Contains(got, tt.want) {
					t.Errorf("event is %q, want %q in it", got, tt.want)
				}
			})
		})
	}
}

func TestAnOlderServerThatHasWhatIsNeededIsCompatible(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"all services":                  olderSchema,
		"without the ConnectionService": olderSchema[strings.LastIndex(olderSchema, "syntax"):],
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newMemoryCluster(t, "a")
				c.servers["a:35000"].describes(text, nil)
				_, events := c.connect(t, "chronicle://a")
				events.await(t, evenkeel.EventConnected, 1)
				if got := events.all(evenkeel.EventUnchecked); len(got) > 0 {
					t.Errorf("unchecked: %v", got)
				}
			})
		})
	}
}

// A server that is silent, or gone, when it is asked would be no better after that.
func TestACheckThatHangsCostsFiveSecondsAndTheNextOneIsTaken(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context, _ *clientspb.CompatibilityRequest) (*clientspb.CompatibilityResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	hangText := func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }
	tests := []struct {
		name  string
		spoil func(*memoryServer)
		after time.Duration
	}{
		{"CheckCompatibility hangs", func(s *memoryServer) { s.compat.Store(&hang) }, 5 * time.Second},
		{"GetDescriptorSet hangs", func(s *memoryServer) { s.describes("", nil); s.schema.Store(&hangText) }, 5 * time.Second},
		{"it is unavailable", func(s *memoryServer) { s.answers(nil, status.Error(codes.Unavailable, "draining")) }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newMemoryCluster(t, "a", "b")
				tt.spoil(c.servers["a:35000"])
				conn, events := c.connect(t, "chronicle://a,b", evenkeel.WithStrategy(inOrder{}))
				selected := events.await(t, evenkeel.EventSelected, 1)
				failed := events.await(t, evenkeel.EventCandidateFailed, 1)
				if d := failed.Time.Sub(selected.Time); d != tt.after {
					t.Errorf("failed after %v, want %v", d, tt.after)
				}
				why, _ := errors.AsType[*evenkeel.EndpointError](failed.Err)
				if why.Step != evenkeel.StepCompatibility || why.Permanent() {
					t.Errorf("got %v, permanent %v, want the step compatibility and another try", why, why.Permanent())
				}
				events.await(t, evenkeel.EventConnected, 1)
				if got := conn.Server().Addr(); got != "b:35000" {
					t.Errorf("connected to %s, want the next one", got)
				}
			})
		})
	}
}

func TestSkipCompatibilityCheckAsksNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a")
		c.servers["a:35000"].answers(&clientspb.CompatibilityResponse{}, nil)
		_, events := c.connect(t, "chronicle://a?skipCompatibilityCheck=true")
		events.await(t, evenkeel.EventConnected, 1)
		if got := events.all(evenkeel.EventCandidateFailed); len(got) > 0 {
			t.Errorf("failed: %v", got)
		}
	})
}

func TestDialEndsAtOnceWhenEveryServerIsIncompatible(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		for _, s := range c.servers {
			s.answers(&clientspb.CompatibilityResponse{Incompatibilities: []string{"x.Y/Z: gone"}}, nil)
		}
		began := time.Now()
		_, err := evenkeel.Dial(t.Context(), "chronicle://a,b?loadBalancer=round-robin",
			evenkeel.WithDialerForTest(c.dial), evenkeel.WithPlaintext())
		incompatible, ok := errors.AsType[*contract.IncompatibleError](err)
		if !ok || !slices.Equal(incompatible.Incompatibilities, []string{"x.Y/Z: gone"}) {
			t.Errorf("got %v, want an *IncompatibleError with the reason", err)
		}
		if d := time.Since(began); d > time.Second {
			t.Errorf("it took %v", d)
		}
	})
}

func TestWithStopOnEndsAtAnIncompatibleServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		c.refuse.Store("b", true)
		c.servers["a:35000"].answers(&clientspb.CompatibilityResponse{}, nil)
		conn, events := c.connect(t, "chronicle://a,b?loadBalancer=round-robin", evenkeel.WithStopOn(evenkeel.ErrIncompatible))
		events.await(t, evenkeel.EventCandidateFailed, 2)
		if err := conn.WaitReady(t.Context()); !errors.Is(err, evenkeel.ErrIncompatible) {
			t.Errorf("got %v, want ErrIncompatible", err)
		}
		if got := conn.State(); got != evenkeel.StateShutdown {
			t.Errorf("state is %v, want shutdown", got)
		}
	})
}

func TestWhatTheClientTellsOfItself(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		options []evenkeel.Option
		want    evenkeel.ClientInfo
		needs   []string
	}{
		{
			"by default", nil, evenkeel.ClientInfo{Type: "Evenkeel", Version: "(devel)", ProtocolVersion: "0.0.0"}, // the version of the build
			[]string{"Cratis.Chronicle.Contracts.Clients.ConnectionService"},
		},
		{
			"as it was told",
			[]evenkeel.Option{
				evenkeel.WithClientInfo(evenkeel.ClientInfo{Type: "Till", Version: "7", ProtocolVersion: "18.4.1"}),
				evenkeel.WithContract(hostContract(t)),
			},
			evenkeel.ClientInfo{Type: "Till", Version: "7", ProtocolVersion: "18.4.1"},
			[]string{"Cratis.Chronicle.Contracts.Clients.ConnectionService", "Cratis.Chronicle.Contracts.Host.Server"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newMemoryCluster(t, "a")
				var got *clientspb.CompatibilityRequest
				compat := func(_ context.Context, request *clientspb.CompatibilityRequest) (*clientspb.CompatibilityResponse, error) {
					got = request
					return &clientspb.CompatibilityResponse{IsCompatible: true}, nil
				}
				c.servers["a:35000"].compat.Store(&compat)
				_, events := c.connect(t, "chronicle://a", tt.options...)
				events.await(t, evenkeel.EventConnected, 1)
				told := evenkeel.ClientInfo{Type: got.GetClientType(), Version: got.GetClientVersion(), ProtocolVersion: got.GetProtocolVersion()}
				if tt.options == nil && told.Version != "" {
					told.Version = tt.want.Version
				}
				if told != tt.want {
					t.Errorf("it told %+v, want %+v", told, tt.want)
				}
				needs, err := contract.Parse(got.GetDescriptorSet())
				if err != nil || !slices.Equal(needs.Services(), tt.needs) {
					t.Errorf("it needs %v, %v, want %v", needs.Services(), err, tt.needs)
				}
			})
		})
	}
}

func TestAContractThatCannotBeSentIsRefusedByNew(t *testing.T) {
	t.Parallel()
	fromText, err := contract.ParseSchema(olderSchema)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := evenkeel.New("chronicle://a", evenkeel.WithContract(fromText)); err == nil || !strings.Contains(err.Error(), "no descriptor set to send") {
		t.Errorf("got %v, want an error on WithContract", err)
	}
}

func testAnOlderContractIsNoFault(t *testing.T) {
	var cases together
	for name, tt := range map[string]struct {
		fault     evenkeeltest.ContractFault
		unchecked int
	}{
		"with a text":    {evenkeeltest.OlderContract(), 0},
		"without a text": {evenkeeltest.ContractFault{Older: true}, 1},
	} {
		cases.run(t, name, func(t *testing.T) {
			c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1})
			c.Servers[0].SetFault(evenkeeltest.Fault{Contract: tt.fault})
			_, events := meet(t, c, c.ConnectionString())
			events.soon(t, evenkeel.EventConnected, 1)
			if got := len(events.all(evenkeel.EventUnchecked)); got != tt.unchecked {
				t.Errorf("%d events say that nobody knows, want %d", got, tt.unchecked)
			}
		})
	}
	cases.wait()
}

// The contract of the client is compared by a server of ours that has declared its own.
func testAContractIsComparedWithThatOfAnEmbeddingServer(t *testing.T) {
	live(t)
	shop, err := contract.New(grpc_health_v1.File_grpc_health_v1_health_proto, hostpb.File_host_proto)
	if err != nil {
		t.Fatal(err)
	}
	more := &descriptorpb.FileDescriptorProto{
		Name: proto.String("more.proto"), Package: proto.String("more"),
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Service")}},
	}
	raw, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{more}})
	if err != nil {
		t.Fatal(err)
	}
	wants, err := contract.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, complete := range []bool{false, true} {
		c := evenkeeltest.Start(t, evenkeeltest.Config{
			Servers: 1, Registry: server.RegistryConfig{Contract: shop, ContractComplete: complete, Version: "1.2.3"},
		})
		meet(t, c, c.ConnectionString(), evenkeel.WithContract(shop))
		began := time.Now()
		conn, err := evenkeel.Dial(within(t), c.ConnectionString(), evenkeel.WithTLS(c.TLS()), evenkeel.WithContract(wants))
		if !complete {
			if err != nil {
				t.Errorf("a service that only the client has: %v, want no fault unless the contract is complete", err)
			} else if err := conn.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			continue
		}
		incompatible, ok := errors.AsType[*contract.IncompatibleError](err)
		if !ok || incompatible.ServerVersion != "1.2.3" || !slices.Equal(incompatible.Incompatibilities, []string{"more.Service: the service is missing"}) {
			t.Errorf("complete: got %v, want the service and the server's version", err)
		}
		if d := time.Since(began); d > slack {
			t.Errorf("Dial took %v to say so", d)
		}
	}
}

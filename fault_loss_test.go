// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// Whatever a server or the network does to a session, the client knows it in 5 s, is ready elsewhere within 6.5 s, and its
// calls say why they were cut off. A client of the other server notices nothing.
func testASessionThatIsSpoiledIsReplacedInTime(t *testing.T) {
	type loss = func(*evenkeeltest.Server)
	fault := func(f evenkeeltest.Fault) loss { return func(s *evenkeeltest.Server) { s.SetFault(f) } }
	tests := []struct {
		name   string
		spoil  loss
		causes []error
		within time.Duration // from the fault to the loss
	}{
		{"a server that sends no keep-alives", fault(evenkeeltest.Fault{NoKeepAlives: true}), []error{evenkeel.ErrSilent}, 5 * time.Second},
		{"a server that leaves answers hanging", fault(evenkeeltest.Fault{HangAnswers: true}), []error{evenkeel.ErrUnanswered}, 4 * time.Second},
		{"a server that fails the answers", fault(evenkeeltest.Fault{FailAnswers: codes.Internal}), []error{evenkeel.ErrUnanswered}, 4 * time.Second},
		{"keep-alives with another id", fault(evenkeeltest.Fault{WrongID: true}), []error{evenkeel.ErrWrongID}, time.Second},
		{"a stream that ends with OK", fault(evenkeeltest.Fault{EndStreams: true}), []error{evenkeel.ErrStreamEnded}, 0},
		{"a server that dies", func(s *evenkeeltest.Server) { _ = s.Kill() }, []error{evenkeel.ErrTransportLost}, 0},
		// Where the network stops just after a keep-alive, the answer to it is what is missed first.
		{
			"a network that stalls", func(s *evenkeeltest.Server) { s.Relay().Stall() },
			[]error{evenkeel.ErrSilent, evenkeel.ErrUnanswered},
			5 * time.Second,
		},
		{
			"a network that loses what the server sends", func(s *evenkeeltest.Server) { s.Relay().Stall(evenkeeltest.ToClient) },
			[]error{evenkeel.ErrSilent, evenkeel.ErrUnanswered},
			5 * time.Second,
		},
		{
			"a network that loses what the client sends", func(s *evenkeeltest.Server) { s.Relay().Stall(evenkeeltest.ToServer) },
			[]error{evenkeel.ErrUnanswered},
			4 * time.Second,
		},
		{"a connection that is reset", func(s *evenkeeltest.Server) { s.Relay().Reset() }, []error{evenkeel.ErrTransportLost}, 0},
		{"a connection that is cut", func(s *evenkeeltest.Server) { s.Relay().Cut() }, []error{evenkeel.ErrTransportLost}, 0},
	}
	var cases together
	for _, tt := range tests {
		cases.run(t, tt.name, func(t *testing.T) {
			var calls program
			c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2, Relays: true, Services: calls.register})
			conn, events := meet(t, c, c.ConnectionString())
			_, bystander := meet(t, c, c.ConnectionString())
			victim := host(t, c, conn.Server())
			if other := bystander.soon(t, evenkeel.EventConnected, 1).Endpoint; host(t, c, other) == victim {
				t.Fatalf("both clients are on %s", other.Addr())
			}
			stream := watch(t.Context(), t, conn)
			cutOff := make(chan error, 2)
			go func() { cutOff <- conn.Invoke(t.Context(), waitMethod, &emptypb.Empty{}, &emptypb.Empty{}) }()
			go func() { cutOff <- stream.RecvMsg(&emptypb.Empty{}) }()
			pass(steadily)

			began := time.Now()
			tt.spoil(victim)
			lost, again := events.soon(t, evenkeel.EventLost, 1), events.soon(t, evenkeel.EventConnected, 2)
			if !isOne(lost.Err, tt.causes) {
				t.Errorf("lost with %v, want one of %v", lost.Err, tt.causes)
			}
			if d := lost.Time.Sub(began); d > tt.within+slack/2 {
				t.Errorf("lost after %v, want %v at most", d, tt.within)
			}
			if d := again.Time.Sub(began); d > 6500*time.Millisecond {
				t.Errorf("ready again after %v, want 6.5s at most", d)
			}
			if host(t, c, again.Endpoint) == victim {
				t.Errorf("ready on %s again", again.Endpoint.Addr())
			}
			for range 2 {
				if err := <-cutOff; status.Code(err) != codes.Unavailable || !isOne(err, tt.causes) {
					t.Errorf("a call was cut off with %v, want Unavailable and the cause", err)
				}
			}
			if got := calls.waits.Load(); got != 1 {
				t.Errorf("the unary call reached servers %d times, want once: it must not be repeated", got)
			}
			if got := bystander.all(evenkeel.EventLost); len(got) > 0 {
				t.Errorf("the client of the other server lost its session: %v", got)
			}
		})
	}
	cases.wait()
}

func isOne(err error, causes []error) bool {
	for _, cause := range causes {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// A stock server that has given a client up says nothing: the stream goes on, and so do the answers. By the protocol the
// session is up, calls work, and only the list of all clients of all servers would tell. The client therefore stays; what
// suffers is the count, by one, until it reconnects for another reason. With our servers it is told.
func testAClientThatIsForgottenWithoutNoticeStaysReady(t *testing.T) {
	live(t)
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2})
	conn, events := meet(t, c, c.ConnectionString())
	s := host(t, c, conn.Server())
	s.SetFault(evenkeeltest.Fault{ForgetClients: true})
	if err := s.WaitCount(within(t), 0); err != nil {
		t.Fatal(err)
	}
	pass(5500 * time.Millisecond) // longer than every limit of the watchdog
	if got := conn.Status(); got.State != evenkeel.StateReady || got.Generation != 1 {
		t.Errorf("status is %v in generation %d, want ready in the first", got.State, got.Generation)
	}
	if got := events.all(evenkeel.EventLost); len(got) > 0 {
		t.Errorf("the session was lost: %v", got)
	}
	if _, err := version(within(t), conn); err != nil {
		t.Errorf("a call on the forgotten session failed: %v", err)
	}
}

func testAClientThatIsEvictedIsToldAndComesBack(t *testing.T) {
	live(t)
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1, Relays: true})
	conn, events := meet(t, c, c.ConnectionString())
	first := conn.Status().ConnectionID
	// The server hears nothing for 5 s. The client knows earlier, and has one server only.
	c.Servers[0].Relay().Conns()[0].Stall(evenkeeltest.ToServer)
	events.soon(t, evenkeel.EventLost, 1)
	again := events.soon(t, evenkeel.EventConnected, 2)
	if got := conn.Status().ConnectionID; got == first {
		t.Errorf("generation %d has the id of the first", again.Generation)
	}
	if err := c.WaitCount(within(t), 1); err != nil {
		t.Errorf("the client that was given up is still counted: %v", err)
	}
}

func testASlowNetworkIsNoFault(t *testing.T) {
	live(t)
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1, Relays: true})
	conn, events := meet(t, c, c.ConnectionString())
	c.Servers[0].Relay().SetDelay(400 * time.Millisecond)
	pass(6 * time.Second)
	if _, err := version(within(t), conn); err != nil {
		t.Errorf("a call: %v", err)
	}
	if got := conn.Status(); got.State != evenkeel.StateReady || got.Generation != 1 {
		t.Errorf("status is %v in generation %d, want ready in the first; events: %s", got.State, got.Generation, events)
	}
}

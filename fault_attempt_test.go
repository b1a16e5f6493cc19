// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// A server that was picked and cannot serve costs what its step may take, and then the next one is tried, in the same
// attempt.
func testACandidateThatCannotServeIsLeftForTheNextOne(t *testing.T) {
	const dialing, checking, connecting = 5 * time.Second, 5 * time.Second, 5 * time.Second
	tests := []struct {
		name   string
		fault  evenkeeltest.Fault
		within time.Duration
		step   evenkeel.Step
		text   string
	}{
		{"accept and reset", evenkeeltest.Fault{Reset: true}, 0, evenkeel.StepDial, ""},
		{"accept and silence", evenkeeltest.Fault{Silent: true}, dialing, evenkeel.StepDial, "TLS handshake"},
		{"TLS and silence", evenkeeltest.Fault{SilentAfterTLS: true}, dialing, evenkeel.StepDial, "does not answer in HTTP/2"},
		{"incompatible", evenkeeltest.Fault{Contract: evenkeeltest.IncompatibleContract()}, 0, evenkeel.StepCompatibility, "the method is missing"},
		{"contract too old", evenkeeltest.Fault{Contract: evenkeeltest.OldestContract()}, 0, evenkeel.StepCompatibility, "ConnectionKeepAlive: the method is missing"},
		{"compatibility check hangs", evenkeeltest.Fault{Contract: evenkeeltest.ContractFault{Hang: true}}, checking, evenkeel.StepCompatibility, "CheckCompatibility"},
		{"Connect refused", evenkeeltest.Fault{RefuseConnect: codes.Unavailable}, 0, evenkeel.StepConnect, "sessions are refused here"},
		{"Connect ended", evenkeeltest.Fault{EndStreams: true}, 0, evenkeel.StepConnect, "server ended the session"},
		{"no keep-alive", evenkeeltest.Fault{NoKeepAlives: true}, connecting, evenkeel.StepConnect, "no keep-alive answered"},
		{"another id", evenkeeltest.Fault{WrongID: true}, 0, evenkeel.StepConnect, "id of another connection"},
		{"answer hangs", evenkeeltest.Fault{HangAnswers: true}, connecting, evenkeel.StepConnect, ""},
		{"answer fails", evenkeeltest.Fault{FailAnswers: codes.PermissionDenied}, 0, evenkeel.StepConnect, "answer the first keep-alive"},
	}
	var cases together
	for _, tt := range tests {
		cases.run(t, tt.name, func(t *testing.T) {
			c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2})
			c.Servers[0].SetFault(tt.fault)
			began := time.Now()
			conn, events := meet(t, c, c.ConnectionString(), evenkeel.WithStrategy(inOrder{}))
			if d := time.Since(began); d > tt.within+slack {
				t.Errorf("Dial took %v, want %v at most", d, tt.within)
			}
			if got := host(t, c, conn.Server()); got != c.Servers[1] {
				t.Errorf("ready on %s, want the second server", got.Addr())
			}
			failed := events.soon(t, evenkeel.EventCandidateFailed, 1)
			why, ok := errors.AsType[*evenkeel.EndpointError](failed.Err)
			if !ok || why.Step != tt.step || !strings.Contains(why.Error(), tt.text) || host(t, c, failed.Endpoint) != c.Servers[0] {
				t.Errorf("the first server failed with %v, want step %q with %q", failed.Err, tt.step, tt.text)
			}
			if got := events.all(evenkeel.EventBackingOff); len(got) > 0 {
				t.Errorf("it backed off: %v", got)
			}
		})
	}
	cases.wait()
}

// A candidate that says nothing to a probe holds up the first round by 2 s, and no later one.
func testASilentCandidateHoldsUpOneRound(t *testing.T) {
	hung := evenkeeltest.HTTPFault{Hang: true}
	var cases together
	for name, fault := range map[string]evenkeeltest.Fault{
		"hung count":         {Count: hung},
		"accept and silence": {Silent: true},
		"TLS and silence":    {SilentAfterTLS: true},
	} {
		cases.run(t, name, func(t *testing.T) {
			c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 3})
			frozen := c.Servers[1]
			frozen.SetFault(fault)
			began := time.Now()
			conn, _ := meet(t, c, c.ConnectionString())
			if d := time.Since(began); d < 2*time.Second || d > 2250*time.Millisecond+slack {
				t.Errorf("Dial took %v, want the 2s of a probe and little more", d)
			}
			if host(t, c, conn.Server()) == frozen {
				t.Error("ready on the silent server, want it to rank last")
			}
			for round := range 3 {
				began = time.Now()
				if err := conn.Reselect(within(t)); err != nil {
					t.Errorf("reselect: %v", err)
				}
				if d := time.Since(began); d > slack {
					t.Errorf("round %d took %v, want it not to wait for the silent server", round+2, d)
				}
			}
			if host(t, c, conn.Server()) == frozen {
				t.Error("moved to the silent server")
			}
		})
	}
	cases.wait()
}

// Answers that are no counts rank last: nobody goes there, though the server is the emptiest.
func testAServerWithoutACountRanksLast(t *testing.T) {
	var cases together
	for name, fault := range map[string]evenkeeltest.Fault{
		"HTML":              {Count: evenkeeltest.HTMLPage()},
		"status 503":        {Count: evenkeeltest.HTTPFault{Status: 503, Body: "0"}},
		"broken off":        {Count: evenkeeltest.HTTPFault{Abort: true}},
		"negative":          {Count: evenkeeltest.CountOf(-1)},
		"a very large lie":  {Count: evenkeeltest.CountOf(1 << 62)},
		"reset connections": {Reset: true},
	} {
		cases.run(t, name, func(t *testing.T) {
			c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2})
			c.Servers[0].SetFault(fault)
			prober := shared(t, c.TLS())
			for range 3 {
				conn, events := meet(t, c, c.ConnectionString(), prober)
				if host(t, c, conn.Server()) != c.Servers[1] {
					t.Errorf("ready on the server that answers wrongly; events: %s", events)
				}
			}
		})
	}
	cases.wait()
}

func testASlowCountIsACount(t *testing.T) {
	live(t)
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2})
	c.Servers[0].SetFault(evenkeeltest.Fault{Count: evenkeeltest.HTTPFault{Delay: 500 * time.Millisecond}})
	for range 4 {
		meet(t, c, c.ConnectionString())
	}
	if got := c.Servers[0].Count(); got != 2 {
		t.Errorf("the slow server has %d of 4 clients, want half", got)
	}
}

func testAReserveThatFailsOrHangsCostsTwoSecondsAtMost(t *testing.T) {
	var cases together
	for name, tt := range map[string]struct {
		fault  evenkeeltest.HTTPFault
		within time.Duration
	}{
		"hung":       {evenkeeltest.HTTPFault{Hang: true}, 2 * time.Second},
		"slow":       {evenkeeltest.HTTPFault{Delay: 300 * time.Millisecond}, 300 * time.Millisecond},
		"refused":    {evenkeeltest.HTTPFault{Status: 429}, 0},
		"broken off": {evenkeeltest.HTTPFault{Abort: true}, 0},
	} {
		cases.run(t, name, func(t *testing.T) {
			c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2})
			for _, s := range c.Servers {
				s.SetFault(evenkeeltest.Fault{Reserve: tt.fault})
			}
			began := time.Now()
			conn, events := meet(t, c, c.ConnectionString())
			if d := time.Since(began); d < tt.within || d > tt.within+250*time.Millisecond+slack {
				t.Errorf("Dial took %v, want %v and the jitter", d, tt.within)
			}
			if got := events.all(evenkeel.EventCandidateFailed); len(got) > 0 {
				t.Errorf("a server was left out for its reserve: %v", got)
			}
			if conn.State() != evenkeel.StateReady {
				t.Errorf("state is %v", conn.State())
			}
		})
	}
	cases.wait()
}

func testClientsThatShareAProberShareItsConnections(t *testing.T) {
	live(t)
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2})
	prober := shared(t, c.TLS())
	const clients = 12
	for range clients {
		meet(t, c, c.ConnectionString(), prober)
	}
	for _, s := range c.Servers {
		if got, want := s.OpenConnections(), s.Count()+1; got != want {
			t.Errorf("%s has %d connections for %d sessions, want one more", s.Addr(), got, s.Count())
		}
	}
	if got := c.Count(); got != clients {
		t.Errorf("the servers count %d, want %d", got, clients)
	}
}

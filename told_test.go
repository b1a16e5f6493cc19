// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/evenkeel-go/evenkeel"
)

// Who is told of a session, or of its loss, by an event or by Reselect, finds the Conn as he was told.
func TestTheConnIsAsTheEventsSay(t *testing.T) {
	t.Parallel()
	for range 500 { // what is checked is an order of two goroutines
		synctest.Test(t, func(t *testing.T) {
			c := newMemoryCluster(t, "a", "b")
			var made atomic.Pointer[evenkeel.Conn]
			ready, connected := make(chan struct{}), make(chan struct{})
			conn, _ := c.connect(t, "chronicle://a,b?loadBalancer=round-robin", evenkeel.WithEvents(func(e evenkeel.Event) {
				<-ready
				status := made.Load().Status()
				switch {
				case e.Kind == evenkeel.EventConnected:
					if status.State != evenkeel.StateReady || status.Generation != e.Generation {
						t.Errorf("connected with generation %d, and the status is %v of %d", e.Generation, status.State, status.Generation)
					}
					connected <- struct{}{}
				case e.Kind == evenkeel.EventLost && status.State == evenkeel.StateReady && status.Generation == e.Generation:
					t.Errorf("lost generation %d, and the status has it ready", e.Generation)
				}
			}))
			made.Store(conn)
			close(ready)
			<-connected
			before := conn.Server()
			if err := conn.Reselect(t.Context()); err != nil {
				t.Fatal(err)
			}
			if after := conn.Server(); after.Addr() == before.Addr() {
				t.Errorf("moved, and still on %s", after.Addr())
			}
			<-connected
			c.servers[conn.Server().Addr()].cutOff()
			<-connected
		})
	}
}

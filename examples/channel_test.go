// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package examples_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

func TestTheChannelReachesAServerFoundInDNS(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	dns.SetAddrs("api.test", netip.MustParseAddr("127.0.0.1"))
	_, port, _ := strings.Cut(listener.Addr().String(), ":")

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	program := exec.CommandContext(ctx, build(t, "channel"))
	program.Env = append(os.Environ(), "TARGET=dns://"+dns.Addr()+"/api.test:"+port)
	out, err := program.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := strings.Count(string(out), listener.Addr().String()+" SERVING <nil>\n"); got != 10 {
		t.Errorf("got %d answers of %v, want 10:\n%s", got, listener.Addr(), out)
	}
}

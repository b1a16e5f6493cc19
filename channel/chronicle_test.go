// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/channel"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

func TestConnectionStringNamesTheEndpoints(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	config := quick()
	heard := hear(&config)
	conn := dial(t, open(t, config), fmt.Sprintf("chronicle://%s,%s/", f.at(1), f.at(2)))
	reaches(t, conn, f.at(1), f.at(2))
	heard.wait(t, "the set", func() bool { return len(heard.changes) == 1 && len(heard.changes[0].Added) == 2 })
	one := dial(t, open(t, quick()), "Chronicle://"+f.at(2))
	reaches(t, one, f.at(2))
}

func TestSRVConnectionStringIsLookedUp(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	for i := 1; i <= 2; i++ {
		f.dns.SetAddrs(fmt.Sprintf("node%d.fleet.test", i), f.addr(i))
	}
	f.dns.SetSRV("_chronicle._tcp.fleet.test", evenkeeltest.SRV{Target: "node1.fleet.test", Port: f.port})
	conn := dial(t, open(t, quick()), "chronicle+srv://fleet.test/?srvNameServer="+f.dns.Addr())
	reaches(t, conn, f.at(1))
	f.dns.SetSRV("_chronicle._tcp.fleet.test",
		evenkeeltest.SRV{Target: "node1.fleet.test", Port: f.port}, evenkeeltest.SRV{Target: "node2.fleet.test", Port: f.port})
	reaches(t, conn, f.at(1), f.at(2))
}

func TestTargetsWithSecretsOrOptionsAreRefusedWithoutShowingThem(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	tests := []struct{ name, target, want string }{
		{"credentials", "chronicle://app:" + secret + "@127.0.0.1:1", "credentials"},
		{"credentials of a list", "chronicle://app:" + secret + "@127.0.0.1:1,127.0.0.2:2", "credentials"},
		{"credentials with SRV", "chronicle+srv://app:" + secret + "@fleet.test", "credentials"},
		{"credentials in capitals", "CHRONICLE://app:" + secret + "@127.0.0.1:1,127.0.0.2:2", "credentials"},
		{"credentials of an SRV target", "srv://app:" + secret + "@127.0.0.1:53/_a._tcp.fleet.test", "credentials"},
		{"credentials in the name of an SRV target", "srv:///app:" + secret + "@_a._tcp.fleet.test", "credentials"},
		{"credentials of a name server", "dns://app:" + secret + "@127.0.0.1:9/fleet.test", "credentials"},
		{"credentials of a name", "dns:///app:" + secret + "@fleet.test:80", "credentials"},
		{"credentials of an address", "dns:///app:" + secret + "@127.0.0.1:80", "credentials"},
		{"a user of a name", "dns:///" + secret + "@fleet.test:80", "credentials"},
		{"credentials without a scheme", "app:" + secret + "@fleet.test:80", "credentials"},
		{"credentials of a source", "evenkeel://app:" + secret + "@fleet.test/servers", "credentials"},
		{"credentials in the name of a source", "evenkeel:///app:" + secret + "@servers", "credentials"},
		{"API key", "chronicle://127.0.0.1:1?apiKey=" + secret, "credentials"},
		{"API key of a list", "chronicle://127.0.0.1:1,127.0.0.2:2?apiKey=" + secret, "credentials"},
		{"certificate", "chronicle://127.0.0.1:1?certificatePath=/a&certificatePassword=" + secret, "options"},
		{"TLS option", "chronicle://127.0.0.1:1?skipTlsValidation=true", "options"},
		{"load balancer", "chronicle://127.0.0.1:1?loadBalancer=random", "options"},
		{"authentication said aloud", "chronicle://127.0.0.1:1?auth=none", "options"},
		{"compatibility", "chronicle://127.0.0.1:1?skipCompatibilityCheck=true", "options"},
		{"name server without SRV", "chronicle://127.0.0.1:1?srvNameServer=127.0.0.1", "no connection string"},
		{"unknown option", "chronicle://127.0.0.1:1?pass=" + secret, "no connection string"},
		{"a path", "chronicle://127.0.0.1:1/" + secret, "no connection string"},
		{"raw at sign in the password", "chronicle://app:a@" + secret + "@127.0.0.1:1,127.0.0.1:2", "credentials"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var log safeBuffer
			config := quick()
			config.Resolver = discover.Static(discover.Endpoint{Host: "127.0.0.1", Port: 1})
			config.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			heard, meters := hear(&config), newMeters(&config)
			_, err := who(testContext(t), dial(t, open(t, config), test.target))
			if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want Unavailable that tells of %q", err, test.want)
			}
			if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), secret) {
				t.Errorf("the error shows the secret")
			}
			heard.mu.Lock()
			defer heard.mu.Unlock()
			if told := fmt.Sprintf("%+v %+v %+v %v %s", heard.resolutions, heard.changes, heard.endpoints, meters.all(), log.String()); strings.Contains(told, secret) {
				t.Errorf("it is told elsewhere: %s", told)
			}
		})
	}
}

func TestBadTargetsFailCalls(t *testing.T) {
	t.Parallel()
	for _, target := range []string{
		"srv:///fleet.test", "srv:///_a.fleet.test", "srv:///_a._tcp", "srv:///_a._tcp.", "srv:///", "srv:///_._tcp.fleet.test",
		"srv://:99/_a._tcp.fleet.test", "srv:///_a._tcp.127.0.0.1", "dns:///fleet.test:99999", "dns:///fleet.test:nosuchservice",
		"dns://bad:port:1/fleet.test", "dns:///-fleet.test", "chronicle://", "chronicle+srv://127.0.0.1", "chronicle+srv://a:1",
	} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			if _, err := who(testContext(t), dial(t, open(t, channel.Config{}), target)); status.Code(err) != codes.Unavailable {
				t.Errorf("got %v, want Unavailable", err)
			}
		})
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend && linux

package test_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"testing"
	"time"

	keel "github.com/evenkeel-go/evenkeel"
)

const (
	kubeName = "evenkeel.default.svc.cluster.local"
	kubePort = "35000"
	// kubeSessions are how many sessions are held beside the channel.
	kubeSessions = 6
	// kubeLimit bounds the run in a network of its own, kubePatience the test in it.
	kubeLimit    = 5 * time.Minute
	kubePatience = 3 * time.Minute
)

var kubePrograms = flag.String("kube", "", "folder with kube-apiserver, etcd and coredns, for TestKube")

// Channels and sessions follow the EndpointSlices of a headless service: an API server, etcd and CoreDNS, as in a cluster,
// with the manifests of deploy, which the API server checks. Only kubelets and controllers are missing, for which the test
// writes what they would.
func TestKubeChannelsAndSessionsFollowAHeadlessService(t *testing.T) {
	if *kubePrograms == "" {
		t.Skip("-kube names no programs; docs/kubernetes.md says how to build them")
	}
	if !inNamespace(t, kubeLimit, "-kube", *kubePrograms) {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), kubePatience)
	defer cancel()
	f := startKubeFleet(ctx, t)
	f.start(ctx, 1, 2)
	f.publish(ctx, "a", ready(1, 2))
	f.publish(ctx, "b", nil)
	f.kube.awaitName(ctx, kubeName, 2)
	tr := startTraffic(t, dialChannel(t, f.ca, "dns://"+f.kube.dns+"/"+kubeName+":"+kubePort))
	sessions := f.connect(ctx)
	tr.await(ctx, time.Time{}, "calls to both servers", func(calls []fleetCall) bool { return reached(calls, 1, 2) })

	f.scaleUp(ctx, tr)
	f.roll(ctx, tr)
	f.forget(ctx, tr)

	settled := time.Now()
	calls := tr.await(ctx, settled, "calls", func(calls []fleetCall) bool { return len(calls) >= evenCalls })
	tr.end()
	tr.even(calls, 4, 5, 6)
	tr.noneFailed()
	f.checkSessions(ctx, sessions)
}

// scaleUp adds a server in a slice of its own.
func (f *kubeFleet) scaleUp(ctx context.Context, tr *traffic) {
	f.t.Helper()
	f.start(ctx, 3)
	added := time.Now()
	f.publish(ctx, "b", ready(3))
	f.kube.awaitName(ctx, kubeName, 3)
	known := time.Since(added)
	calls := tr.await(ctx, added, "calls to the new server", func(calls []fleetCall) bool { return reached(calls, 3) })
	took := firstOn(calls, 3).Sub(added)
	f.t.Logf("a new server was in DNS %v after its EndpointSlice, and had its first call after %v", ms(known), ms(took))
	if want := known + channelInterval + dueLimit; took > want {
		f.t.Errorf("the new server had its first call after %v, want %v at most", took, want)
	}
}

// roll replaces all servers, one after the other, as a deployment with maxSurge 1 does.
func (f *kubeFleet) roll(ctx context.Context, tr *traffic) {
	f.t.Helper()
	began := time.Now()
	for n := 1; n <= 3; n++ {
		f.start(ctx, n+3)
		var listed []kubeEndpoint
		for _, up := range numbers(n+1, n+3) {
			listed = append(listed, kubeEndpoint{up, true})
		}
		f.publish(ctx, "b", nil)
		f.publish(ctx, "a", append(listed, kubeEndpoint{n, false}))
		f.terminate(n)
		f.awaitEnd(ctx, n)
		tr.await(ctx, began, "calls to the new server", func(calls []fleetCall) bool { return reached(calls, n+3) })
	}
	f.publish(ctx, "a", ready(4, 5, 6))
	all := tr.since(began)
	f.t.Logf("three servers were replaced in %v: %d of %d calls failed", ms(time.Since(began)), len(failed(all)), len(all))
}

// forget makes the service one without endpoints for a while, as a failing readiness probe of all pods does.
func (f *kubeFleet) forget(ctx context.Context, tr *traffic) {
	f.t.Helper()
	began := time.Now()
	f.publish(ctx, "a", []kubeEndpoint{{4, false}, {5, false}, {6, false}})
	f.kube.awaitName(ctx, kubeName, 0)
	tr.run(ctx, channelMaxInterval)
	f.publish(ctx, "a", ready(4, 5, 6))
	f.kube.awaitName(ctx, kubeName, 3)
	all := tr.since(began)
	f.t.Logf("DNS knew no server for %v: %d of %d calls failed", ms(time.Since(began)), len(failed(all)), len(all))
}

// kubeFleet is servers on addresses of pods, and the cluster that knows them.
type kubeFleet struct {
	*channelFleet

	kube *kube
}

// startKubeFleet starts a cluster without servers, with the manifests.
func startKubeFleet(ctx context.Context, t *testing.T) *kubeFleet {
	t.Helper()
	f := &kubeFleet{channelFleet: &channelFleet{t: t, ca: newAuthority(t), port: kubePort, servers: make(map[int]*serving)}}
	f.cert, f.key = f.ca.issue(kubeName, "*."+kubeName)
	addAddress(t, "lo:1", podAddress(1)) // with its class A network, so that all pods are here
	f.kube = startKube(ctx, t, *kubePrograms)
	f.kube.apply(ctx, "../deploy/kubernetes/servers.yaml", "../deploy/kubernetes/clients.yaml")
	return f
}

// podAddress is the address of a pod. Kubernetes takes no loopback addresses for endpoints.
func podAddress(n int) [4]byte { return [4]byte{10, 99, 0, byte(n)} }

func podHost(n int) string { a := podAddress(n); return net.IP(a[:]).String() }

// start starts servers on the addresses of pods.
func (f *kubeFleet) start(ctx context.Context, wanted ...int) {
	f.t.Helper()
	for _, n := range wanted {
		f.servers[n] = serve(ctx, f.t, podHost(n), "--listen", net.JoinHostPort(podHost(n), kubePort), "--cert", f.cert, "--key", f.key,
			"--drain-period", "1s", "--drain-limit", fleetDrainLimit.String())
	}
}

// kubeEndpoint is a server in an EndpointSlice; one that is not ready is terminating.
type kubeEndpoint struct {
	number int
	ready  bool
}

func ready(servers ...int) []kubeEndpoint {
	endpoints := make([]kubeEndpoint, len(servers))
	for i, n := range servers {
		endpoints[i] = kubeEndpoint{n, true}
	}
	return endpoints
}

// publish makes these the endpoints of a slice.
func (f *kubeFleet) publish(ctx context.Context, slice string, endpoints []kubeEndpoint) {
	f.t.Helper()
	told := make([]any, len(endpoints))
	for i, e := range endpoints {
		told[i] = object{
			"addresses":  []string{podHost(e.number)},
			"conditions": object{"ready": e.ready, "serving": true, "terminating": !e.ready},
		}
	}
	f.kube.put(ctx, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", "evenkeel-"+slice, object{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		"metadata": object{"name": "evenkeel-" + slice, "labels": object{"kubernetes.io/service-name": "evenkeel"}},
		"ports":    []any{object{"name": "chronicle", "protocol": "TCP", "port": 35000}}, "endpoints": told,
	})
}

// connect holds sessions, which end with the test.
func (f *kubeFleet) connect(ctx context.Context) []*keel.Conn {
	f.t.Helper()
	sessions := make([]*keel.Conn, kubeSessions)
	for i := range sessions {
		target := fmt.Sprintf("chronicle+srv://%s/?srvNameServer=%s", kubeName, f.kube.dns)
		conn, err := keel.Dial(ctx, target, keel.WithTLS(f.ca.tls()))
		if err != nil {
			f.t.Fatal(err)
		}
		f.t.Cleanup(func() {
			if err := conn.Close(); err != nil {
				f.t.Error(err)
			}
		})
		f.t.Logf("session %d is with %s", i, conn.Server().Addr())
		sessions[i] = conn
	}
	return sessions
}

// checkSessions: all are with new servers, by the names that CoreDNS has given these.
func (f *kubeFleet) checkSessions(ctx context.Context, sessions []*keel.Conn) {
	f.t.Helper()
	valid := make(map[string]bool)
	for n := 4; n <= 6; n++ {
		a := podAddress(n)
		valid[fmt.Sprintf("%d-%d-%d-%d.%s:%s", a[0], a[1], a[2], a[3], kubeName, kubePort)] = true
	}
	for i, conn := range sessions {
		if err := conn.WaitReady(ctx); err != nil {
			f.t.Errorf("session %d: %v", i, err)
		}
		status := conn.Status()
		f.t.Logf("session %d, the %d. of its client, is with %s", i, status.Generation, status.Endpoint.Addr())
		if !valid[status.Endpoint.Addr()] {
			f.t.Errorf("session %d is with %s, want one of the new servers", i, status.Endpoint.Addr())
		}
	}
}

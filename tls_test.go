// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// permanentFailure dials a cluster that cannot be reached for a permanent reason and returns the failure of its server.
func permanentFailure(t *testing.T, s string, opts ...evenkeel.Option) *evenkeel.EndpointError {
	t.Helper()
	_, err := evenkeel.Dial(within(t), s, opts...)
	attempt, ok := errors.AsType[*evenkeel.AttemptError](err)
	if !ok || !attempt.Permanent() {
		t.Fatalf("Dial returned %v, want a permanent *AttemptError", err)
	}
	return attempt.Failures[0]
}

func wantParts(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("got %q, want %q in it", text, part)
		}
	}
}

func TestACertificateThatIsRefusedIsNamedWithTheReasonAndTheWayOn(t *testing.T) {
	t.Parallel()
	const orSkip = "or set skipTlsValidation=true in development"
	tests := []struct {
		name  string
		fault evenkeeltest.CertificateFault
		want  []string
	}{
		{"expired", evenkeeltest.ExpiredCertificate, []string{"certificate expired on 2", "renew the certificate"}},
		{"not yet valid", evenkeeltest.FutureCertificate, []string{"certificate is not valid before 2", "set the clock of this machine"}},
		{"another name", evenkeeltest.OtherName, []string{"certificate is for elsewhere.test, not for node1.cluster.test", "connect by a name that the certificate has"}},
		{"unknown root", evenkeeltest.UnknownRoot, []string{"certificate signed by unknown authority: that of node1.cluster.test, ", "WithTLS"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1})
			cluster.Servers[0].SetFault(evenkeeltest.Fault{Certificate: tt.fault})
			failure := permanentFailure(t, cluster.SRVConnectionString(), evenkeel.WithTLS(cluster.TLS()))
			wantParts(t, failure.Error(), append(tt.want, orSkip)...)
			if failure.Step != evenkeel.StepDial {
				t.Errorf("failed in step %q, want dial", failure.Step)
			}
			dial(t, cluster.SRVConnectionString()+"&skipTlsValidation=true", evenkeel.WithTLS(cluster.TLS()))
		})
	}
}

func TestWhatTheProgramsOwnCheckRefusesIsARefusedCertificate(t *testing.T) {
	t.Parallel()
	errPin := errors.New("not the pinned key")
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1})
	for name, set := range map[string]func(*tls.Config){
		"VerifyPeerCertificate": func(c *tls.Config) {
			c.VerifyPeerCertificate = func([][]byte, [][]*x509.Certificate) error { return errPin }
		},
		"VerifyConnection": func(c *tls.Config) { c.VerifyConnection = func(tls.ConnectionState) error { return errPin } },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own, served := cluster.TLS(), cluster.TLS()
			set(own)
			failure := permanentFailure(t, cluster.SRVConnectionString(), evenkeel.WithTLS(own))
			wantParts(t, failure.Error(), "certificate refused: that of node1.cluster.test, ", "not the pinned key", "the program's own check refused it")
			if !errors.Is(failure, errPin) || failure.Step != evenkeel.StepDial {
				t.Errorf("failed with %v, want the program's own error at dial", failure)
			}
			served.VerifyConnection = func(tls.ConnectionState) error { return nil }
			dial(t, cluster.SRVConnectionString(), evenkeel.WithTLS(served))
		})
	}
}

func TestAServerWithABadCertificateIsLeftOutAndAnotherTried(t *testing.T) {
	t.Parallel()
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2})
	cluster.Servers[0].SetFault(evenkeeltest.Fault{Certificate: evenkeeltest.ExpiredCertificate})
	conn, r := meet(t, cluster, cluster.ConnectionString(), evenkeel.WithStrategy(inOrder{}))
	if got := conn.Server().Addr(); got != cluster.Servers[1].Addr() {
		t.Errorf("connected to %s, want the other one", got)
	}
	wantParts(t, r.await(t, evenkeel.EventCandidateFailed, 1).Err.Error(), "certificate expired on ")
}

// clientFile writes a certificate of the cluster's authority, and its key, into a file.
func clientFile(t *testing.T, cluster *evenkeeltest.Cluster, path, name string) {
	t.Helper()
	cert, key, err := cluster.ClientCertificate(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(cert, key...), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAServerThatWantsAClientCertificate(t *testing.T) {
	t.Parallel()
	cluster := guarded(t, evenkeeltest.Config{Servers: 2, ClientCertificates: true})
	t.Run("and gets none", func(t *testing.T) {
		t.Parallel()
		failure := permanentFailure(t, cluster.ConnectionString(), evenkeel.WithTLS(cluster.TLS()))
		wantParts(t, failure.Error(), "the server wants a client certificate, and got none", "certificatePath")
		if !errors.Is(failure, evenkeel.ErrClientCertificate) {
			t.Errorf("errors.Is finds no ErrClientCertificate in %v", failure)
		}
	})
	t.Run("and gets none under TLS 1.2", func(t *testing.T) {
		t.Parallel()
		config := cluster.TLS()
		config.MaxVersion = tls.VersionTLS12
		failure := permanentFailure(t, cluster.ConnectionString(), evenkeel.WithTLS(config))
		wantParts(t, failure.Error(), "the server wants a client certificate, and got none", "certificatePath")
	})
	t.Run("and gets a stranger's", func(t *testing.T) {
		t.Parallel()
		other := evenkeeltest.Start(t, evenkeeltest.Config{Servers: -1})
		path := filepath.Join(t.TempDir(), "client.pem")
		clientFile(t, other, path, "app")
		failure := permanentFailure(t, cluster.ConnectionString()+"?certificatePath="+path, evenkeel.WithTLS(cluster.TLS()))
		wantParts(t, failure.Error(), "the server refuses the client's certificate: it does not know the authority")
	})
	t.Run("and gets it, from probes and for tokens too", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "client.pem")
		clientFile(t, cluster, path, "app")
		conn, r := meet(t, cluster, cluster.ConnectionString()+"?certificatePath="+path)
		for _, o := range r.await(t, evenkeel.EventSelected, 1).Observations {
			if o.Err != nil {
				t.Errorf("the probe of %s failed: %v", o.Endpoint.Addr(), o.Err)
			}
		}
		if err := clients(within(t), conn); err != nil {
			t.Errorf("a call: %v", err)
		}
	})
	t.Run("and gets it from code", func(t *testing.T) {
		t.Parallel()
		cert, key, err := cluster.ClientCertificate("app")
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		config := cluster.TLS()
		config.Certificates = []tls.Certificate{pair}
		dial(t, cluster.ConnectionString(), evenkeel.WithTLS(config))
	})
}

// whoCalls tells a test by which certificates clients have opened Connect streams.
type whoCalls struct {
	mu    sync.Mutex
	names []string
}

func (w *whoCalls) intercept(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if p, ok := peer.FromContext(ss.Context()); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(info.State.PeerCertificates) > 0 {
			w.mu.Lock()
			w.names = append(w.names, info.State.PeerCertificates[0].Subject.CommonName)
			w.mu.Unlock()
		}
	}
	return handler(srv, ss)
}

func (w *whoCalls) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.names[len(w.names)-1]
}

func TestAClientCertificateThatChangesIsUsedWithoutARestartAndABrokenOneIsNot(t *testing.T) {
	t.Parallel()
	who := &whoCalls{}
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{
		Servers: 2, ClientCertificates: true, GRPCOptions: []grpc.ServerOption{grpc.ChainStreamInterceptor(who.intercept)},
	})
	path := filepath.Join(t.TempDir(), "client.pem")
	clientFile(t, cluster, path, "first")
	conn, r := meet(t, cluster, cluster.ConnectionString()+"?certificatePath="+path)
	connected := 1
	// move makes new connections until the file has been looked at n times with news.
	move := func(n int) evenkeel.Event {
		for len(r.all(evenkeel.EventCertificate)) < n {
			s := host(t, cluster, conn.Server())
			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
			connected++
			r.await(t, evenkeel.EventConnected, connected)
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
		}
		return r.await(t, evenkeel.EventCertificate, n)
	}
	clientFile(t, cluster, path, "second")
	if e := move(1); e.Err != nil {
		t.Errorf("the changed file: %v", e.Err)
	}
	until(t, "a session with the new certificate", func() bool { return who.last() == "second" || connectAgain(t, cluster, conn, r, &connected) })
	if err := os.WriteFile(path, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := move(2)
	if e.Err == nil || !strings.Contains(e.String(), "client certificate: the one before it stays in use: the file "+path) {
		t.Errorf("the broken file: %v", e)
	}
	if got := who.last(); got != "second" || conn.State() != evenkeel.StateReady {
		t.Errorf("the session is %v with the certificate of %s, want ready with the one before", conn.State(), got)
	}
}

// connectAgain makes the session move once more. It returns false, for until.
func connectAgain(t *testing.T, cluster *evenkeeltest.Cluster, conn *evenkeel.Conn, r *recorder, connected *int) bool {
	t.Helper()
	s := host(t, cluster, conn.Server())
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	*connected++
	r.await(t, evenkeel.EventConnected, *connected)
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	return false
}

// tap passes connections on to a server, or to nobody, and keeps what clients send.
type tap struct {
	listener net.Listener
	to       string
	group    sync.WaitGroup

	mu   sync.Mutex
	sent [][]byte // by connection
}

func newTap(t *testing.T, to string) *tap {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{listener: listener, to: to}
	p.group.Go(p.run)
	t.Cleanup(p.end)
	return p
}

func (p *tap) end() {
	_ = p.listener.Close()
	p.group.Wait()
}

func (p *tap) run() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		n := len(p.sent)
		p.sent = append(p.sent, nil)
		p.mu.Unlock()
		p.group.Go(func() { p.pass(n, conn) })
	}
}

func (p *tap) pass(n int, client net.Conn) {
	defer client.Close() //nolint:errcheck // over
	var back io.WriteCloser
	if p.to != "" {
		server, err := net.Dial("tcp", p.to)
		if err != nil {
			return
		}
		back = server
		p.group.Go(func() {
			_, _ = io.Copy(client, server)
			_ = client.Close()
		})
		defer server.Close() //nolint:errcheck // over
	}
	buffer := make([]byte, 32<<10)
	for {
		got, err := client.Read(buffer)
		p.mu.Lock()
		p.sent[n] = append(p.sent[n], buffer[:got]...)
		p.mu.Unlock()
		if err != nil || back == nil && got > 0 { // nobody is there: whoever sends without TLS has had the chance
			return
		}
		if _, err := back.Write(buffer[:got]); err != nil {
			return
		}
	}
}

// check looks at every byte that clients have sent: whole TLS records, from the first one on, and no secret.
func (p *tap) check(t *testing.T, least int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.sent) < least {
		t.Errorf("%d connections were made, want %d at least", len(p.sent), least)
	}
	for n, sent := range p.sent {
		if bytes.Contains(sent, []byte(planted)) || bytes.Contains(sent, []byte("HTTP")) || bytes.Contains(sent, []byte("Bearer")) {
			t.Errorf("connection %d: plaintext was sent", n+1)
		}
		for first := true; len(sent) >= 5; first = false {
			kind, length := sent[0], int(sent[3])<<8|int(sent[4])
			if first && kind != 0x16 || kind < 0x14 || kind > 0x17 || sent[1] != 3 {
				t.Errorf("connection %d: sent % x, want a TLS record", n+1, sent[:5])
				break
			}
			sent = sent[min(len(sent), 5+length):]
		}
	}
}

func TestNoPlaintextByteIsSentWhereTLSWasAskedFor(t *testing.T) {
	t.Parallel()
	t.Run("to a server that serves", func(t *testing.T) {
		t.Parallel()
		cluster := guarded(t, evenkeeltest.Config{Servers: 2})
		a, b := newTap(t, cluster.Servers[0].Addr()), newTap(t, cluster.Servers[1].Addr())
		_, rest, _ := strings.Cut(cluster.ConnectionString(), "://")
		user, _, _ := strings.Cut(rest, "@")
		conn := dial(t, "chronicle://"+user+"@"+a.listener.Addr().String()+","+b.listener.Addr().String(), evenkeel.WithTLS(cluster.TLS()))
		if err := clients(within(t), conn); err != nil {
			t.Errorf("a call: %v", err)
		}
		a.check(t, 1)
		b.check(t, 1)
		a.mu.Lock()
		b.mu.Lock()
		if n := len(a.sent) + len(b.sent); n < 4 {
			t.Errorf("%d connections were made, want two probes, a token and the session", n)
		}
		b.mu.Unlock()
		a.mu.Unlock()
	})
	for name, plain := range map[string]bool{"to a server that speaks plaintext": true, "to a server that hangs up": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := ""
			if plain {
				to = evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1, Plaintext: true}).Servers[0].Addr()
			}
			a, b := newTap(t, to), newTap(t, to)
			r := newRecorder()
			conn, err := evenkeel.New("chronicle://app:"+"pl%40nted%2Fsecret@"+a.listener.Addr().String()+","+b.listener.Addr().String()+
				"/?skipTlsValidation=true", evenkeel.WithEvents(r.record))
			if err != nil {
				t.Fatal(err)
			}
			r.await(t, evenkeel.EventBackingOff, 1)
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
			a.check(t, 2) // a probe and a session
			b.check(t, 2)
		})
	}
}

func TestTargetsOutsideOfTheDomainAreLeftOut(t *testing.T) {
	t.Parallel()
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1})
	good := cluster.Servers[0]
	cluster.DNS.SetSRV("_chronicle._tcp."+cluster.Domain(),
		evenkeeltest.SRV{Target: "node1.evil.test", Port: good.Endpoint().Port, Priority: 0},
		evenkeeltest.SRV{Target: "eviltest.cluster.test.evil.test", Port: good.Endpoint().Port, Priority: 0},
		evenkeeltest.SRV{Target: "notcluster.test", Port: good.Endpoint().Port, Priority: 0},
		evenkeeltest.SRV{Target: good.Name(), Port: good.Endpoint().Port, Priority: 1})
	conn, r := meet(t, cluster, cluster.SRVConnectionString(), evenkeel.WithSRVTargetsInDomain())
	if got := conn.Server().Host; got != good.Name() {
		t.Errorf("connected to %s, want %s", got, good.Name())
	}
	e := r.await(t, evenkeel.EventResolved, 1)
	if len(e.Endpoints) != 1 || e.Err == nil || !strings.Contains(e.Err.Error(), `its target "node1.evil.test" is not in cluster.test`) {
		t.Errorf("found %v with %v, want one endpoint and a word on the others", e.Endpoints, e.Err)
	}
	cluster.DNS.SetSRV("_chronicle._tcp."+cluster.Domain(), evenkeeltest.SRV{Target: "node1.evil.test", Port: 1})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := evenkeel.Dial(ctx, cluster.SRVConnectionString(), evenkeel.WithTLS(cluster.TLS()), evenkeel.WithSRVTargetsInDomain())
	if err == nil || !strings.Contains(err.Error(), "is not in cluster.test") {
		t.Errorf("Dial returned %v, want that nobody is left", err)
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package devcert_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel-go/evenkeel/internal/devcert"
	"github.com/evenkeel-go/evenkeel/internal/memnet"
)

func TestNewLooksLikeTheStockServersCertificate(t *testing.T) {
	t.Parallel()
	certificate, err := devcert.New()
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	leaf := certificate.Leaf
	if got, want := leaf.Subject.CommonName, "localhost"; got != want {
		t.Errorf("common name: got %q, want %q", got, want)
	}
	if diff := cmp.Diff([]string{"localhost", "chronicle"}, leaf.DNSNames); diff != "" {
		t.Errorf("DNS names (-want +got):\n%s", diff)
	}
	if got := addresses(leaf); cmp.Diff([]string{"127.0.0.1", "::1"}, got) != "" {
		t.Errorf("addresses: got %v, want 127.0.0.1 and ::1", got)
	}
	if got, want := leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth; len(got) != 1 || got[0] != want {
		t.Errorf("extended key usage: got %v, want %v alone", got, want)
	}
	if key, ok := leaf.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		t.Errorf("key: got %T, want ECDSA P-256", leaf.PublicKey)
	}
	day := 24 * time.Hour
	if age := time.Since(leaf.NotBefore); age < day || age > day+time.Hour {
		t.Errorf("not before: got %v ago, want a day", age)
	}
	if left := time.Until(leaf.NotAfter); left < 364*day || left > 365*day {
		t.Errorf("not after: got in %v, want in a year", left)
	}
}

func TestExtraNames(t *testing.T) {
	t.Parallel()
	certificate, err := devcert.New("Node1.example.", "[fe80::1%eth0]", "192.0.2.7", "localhost", "::1", "a_b.test")
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	if diff := cmp.Diff([]string{"localhost", "chronicle", "Node1.example", "a_b.test"}, certificate.Leaf.DNSNames); diff != "" {
		t.Errorf("DNS names (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"127.0.0.1", "::1", "fe80::1", "192.0.2.7"}, addresses(certificate.Leaf)); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}

func TestNamesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]string{
		"empty": "", "with a blank": "a b", "with a port": "node1:35000", "not ASCII": "köln.example", "with a control byte": "a\x00b",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := devcert.New(bad); err == nil || !strings.Contains(err.Error(), "certificate name") {
				t.Errorf("got error %v, want one about the certificate name", err)
			}
		})
	}
}

func TestCAIssuesCertificatesThatItsPoolTrusts(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	certificate, err := ca.Issue("node1.test", "127.0.0.1", "::1")
	if err != nil {
		t.Fatalf("issue: %v", err)
	}
	for _, name := range []string{"node1.test", "127.0.0.1", "::1"} {
		if err := handshake(t, certificate, &tls.Config{RootCAs: ca.Pool(), ServerName: name}); err != nil {
			t.Errorf("handshake as %s: %v", name, err)
		}
	}
	if err := handshake(t, certificate, &tls.Config{RootCAs: ca.Pool(), ServerName: "node2.test"}); err == nil {
		t.Error("handshake as node2.test: got no error, want one: the certificate is for node1.test")
	}
	if err := handshake(t, certificate, &tls.Config{RootCAs: newCA(t).Pool(), ServerName: "node1.test"}); err == nil {
		t.Error("handshake with another authority's pool: got no error, want one")
	}
	fromPEM := x509.NewCertPool()
	if !fromPEM.AppendCertsFromPEM(ca.PEM()) {
		t.Error("PEM: got nothing that a pool can read")
	}
	if err := handshake(t, certificate, &tls.Config{RootCAs: fromPEM, ServerName: "node1.test"}); err != nil {
		t.Errorf("handshake with the pool from PEM: %v", err)
	}
}

func TestIssueNeedsAName(t *testing.T) {
	t.Parallel()
	if _, err := newCA(t).Issue(); err == nil {
		t.Error("issue without a name: got no error, want one")
	}
	if _, err := newCA(t).Issue("a b"); err == nil {
		t.Error("issue for a name with a blank: got no error, want one")
	}
}

// A bubble starts in the year 2000: a certificate made outside would not be valid yet.
func TestWorksOnAFakeClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		certificate, err := devcert.New()
		if err != nil {
			t.Fatalf("new: %v", err)
		}
		if got, want := certificate.Leaf.NotAfter.Year(), time.Now().Year(); got < want || got > want+1 {
			t.Errorf("not after: got the year %d, want a year after %d", got, want)
		}
		roots := x509.NewCertPool()
		roots.AddCert(certificate.Leaf)
		if err := handshake(t, certificate, &tls.Config{RootCAs: roots, ServerName: "localhost"}); err != nil {
			t.Errorf("handshake: %v", err)
		}
	})
}

func newCA(t *testing.T) *devcert.CA {
	t.Helper()
	ca, err := devcert.NewCA()
	if err != nil {
		t.Fatalf("new CA: %v", err)
	}
	return ca
}

// handshake runs a TLS handshake in memory and returns the client's error. The connection is buffered: over an
// unbuffered one both sides can be stuck in a write, the client with its alert and the server with its session ticket.
func handshake(t *testing.T, certificate tls.Certificate, client *tls.Config) error {
	t.Helper()
	listener := memnet.Listen()
	done := make(chan struct{})
	go func() {
		defer close(done)
		far, err := listener.Accept()
		if err != nil {
			t.Errorf("accept: %v", err)
			return
		}
		// The client's error is the one under test; the server's says the same from the other side.
		_ = tls.Server(far, &tls.Config{Certificates: []tls.Certificate{certificate}}).Handshake()
		_ = far.Close()
	}()
	near, err := listener.DialContext(t.Context())
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	err = tls.Client(near, client).Handshake()
	_ = near.Close()
	<-done
	_ = listener.Close()
	return err
}

func addresses(certificate *x509.Certificate) []string {
	var texts []string
	for _, ip := range certificate.IPAddresses {
		texts = append(texts, ip.String())
	}
	return texts
}

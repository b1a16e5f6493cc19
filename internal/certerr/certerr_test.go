// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package certerr_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/internal/certerr"
	"github.com/evenkeel-go/evenkeel/internal/devcert"
)

func authority(t *testing.T) *devcert.CA {
	t.Helper()
	ca, err := devcert.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func issue(t *testing.T, ca *devcert.CA, r devcert.Request) tls.Certificate {
	t.Helper()
	pair, err := ca.IssueFor(r)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// shake makes a connection between a client and a server and returns the client's error, at the latest that of its first
// read.
func shake(t *testing.T, client, server *tls.Config) error {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		raw, err := listener.Accept()
		if err != nil {
			return
		}
		conn := tls.Server(raw, server)
		_, _ = conn.Read(make([]byte, 1)) // until the client has gone
		_ = conn.Close()
	}()
	defer func() {
		_ = listener.Close()
		<-ended
	}()
	conn, err := tls.Dial("tcp", listener.Addr().String(), client)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the test is over
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

func TestCertificatesOfServers(t *testing.T) {
	t.Parallel()
	ca, day := authority(t), 24*time.Hour
	names := []string{"node1.test", "127.0.0.1"}
	many := strings.Split("a.test b.test c.test d.test e.test f.test g.test", " ")
	selfSigned, err := devcert.New("node1.test")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		pair tls.Certificate
		want []string
	}{
		{
			"expired", issue(t, ca, devcert.Request{Names: names, NotBefore: time.Now().Add(-2 * day), NotAfter: time.Now().Add(-day)}),
			[]string{"certificate expired on 2", "the time here is ", `that of node1.test, "node1.test", issued by "Evenkeel development CA"`},
		},
		{
			"not yet valid", issue(t, ca, devcert.Request{Names: names, NotBefore: time.Now().Add(day)}),
			[]string{"certificate is not valid before 2", "the time here is ", "that of node1.test"},
		},
		{
			"another name", issue(t, ca, devcert.Request{Names: []string{"other.test", "10.1.2.3"}}),
			[]string{"certificate is for other.test, 10.1.2.3, not for node1.test"},
		},
		{"many other names", issue(t, ca, devcert.Request{Names: many}), []string{"a.test, b.test, c.test, d.test, e.test and 2 more, not for node1.test"}},
		{"unknown root", issue(t, authority(t), devcert.Request{Names: names}), []string{"certificate signed by unknown authority: that of node1.test, "}},
		{"self-signed", selfSigned, []string{`certificate signed by unknown authority: that of node1.test, "localhost", self-signed`}},
		{"for clients only", issue(t, ca, devcert.Request{Names: names, Client: true}), []string{"certificate refused: that of node1.test, ", "key usage"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			raw := shake(t, &tls.Config{RootCAs: ca.Pool(), ServerName: "node1.test"}, &tls.Config{Certificates: []tls.Certificate{tt.pair}})
			err := certerr.Explain(raw, "node1.test")
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
			if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok || errors.Is(err, certerr.ErrClient) {
				t.Errorf("%v does not wrap the error of TLS", err)
			}
			if again := certerr.Explain(err, "again"); again != err { //nolint:errorlint // the same value
				t.Errorf("explained twice: %v", again)
			}
		})
	}
}

func TestCertificatesOfClients(t *testing.T) {
	t.Parallel()
	ca, day := authority(t), 24*time.Hour
	pair := issue(t, ca, devcert.Request{Names: []string{"node1.test"}})
	expired := devcert.Request{Names: []string{"app"}, Client: true, NotBefore: time.Now().Add(-2 * day), NotAfter: time.Now().Add(-day)}
	tests := []struct {
		name    string
		version uint16
		client  []tls.Certificate
		want    string
	}{
		{"none", tls.VersionTLS13, nil, "wants a client certificate, and got none"},
		{"of an unknown authority, with TLS 1.2", tls.VersionTLS12, []tls.Certificate{issue(t, authority(t), devcert.Request{Names: []string{"app"}, Client: true})}, "does not know the authority"},
		{"of an unknown authority", tls.VersionTLS13, []tls.Certificate{issue(t, authority(t), devcert.Request{Names: []string{"app"}, Client: true})}, "does not know the authority"},
		{"expired", tls.VersionTLS13, []tls.Certificate{issue(t, ca, expired)}, "expired certificate"},
		{"for servers only", tls.VersionTLS13, []tls.Certificate{pair}, "refuses the client's certificate"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := &tls.Config{RootCAs: ca.Pool(), ServerName: "node1.test", MaxVersion: tt.version}
			if len(tt.client) > 0 { // as a certificate file gives it, whatever the server asks for
				client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &tt.client[0], nil }
			}
			raw := shake(t, client, &tls.Config{
				Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(),
			})
			err := certerr.Explain(raw, "node1.test")
			if !errors.Is(err, certerr.ErrClient) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if _, ok := errors.AsType[*net.OpError](err); !ok {
				t.Errorf("%v does not wrap the error of TLS", err)
			}
		})
	}
}

func TestOtherErrorsAreLeftAlone(t *testing.T) {
	t.Parallel()
	for _, err := range []error{nil, errors.New("x"), &net.OpError{Op: "remote error", Err: tls.AlertError(40)}, &net.OpError{Op: "dial", Err: errors.New("refused")}} {
		if got := certerr.Explain(err, "a"); got != err { //nolint:errorlint // the same value
			t.Errorf("got %v, want %v", got, err)
		}
	}
}

// What a certificate says of itself is a stranger's text.
func TestAStrangersTextIsBoundedAndPrintable(t *testing.T) {
	t.Parallel()
	leaf := &x509.Certificate{DNSNames: []string{"a\x1b[31m" + strings.Repeat("b", 500)}}
	leaf.Subject.CommonName = "c\n" + strings.Repeat("d", 500)
	err := certerr.Explain(&tls.CertificateVerificationError{
		UnverifiedCertificates: []*x509.Certificate{leaf}, Err: x509.HostnameError{Certificate: leaf, Host: "x"},
	}, "node1.test")
	if text := err.Error(); len(text) > 300 || strings.ContainsAny(text, "\x1b\n") {
		t.Errorf("got %q", text)
	}
}

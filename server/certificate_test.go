// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/evenkeel-go/evenkeel/internal/devcert"
	"github.com/evenkeel-go/evenkeel/server"
)

// certificates are those of an authority, in files.
type certificates struct {
	ca        *devcert.CA
	cert, key string
}

func newCertificates(t *testing.T) *certificates {
	t.Helper()
	ca, err := devcert.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return &certificates{ca: ca, cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem")}
}

// issue writes a certificate for a name, and localhost.
func (c *certificates) issue(t *testing.T, name string) {
	t.Helper()
	pair, err := c.ca.Issue(name, "localhost")
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := devcert.Encode(pair)
	if err != nil {
		t.Fatal(err)
	}
	c.write(t, cert, key)
}

func (c *certificates) write(t *testing.T, cert, key []byte) {
	t.Helper()
	for path, content := range map[string][]byte{c.cert: cert, c.key: key} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// pkcs12 is a PKCS#12 file without a password.
func (c *certificates) pkcs12(t *testing.T) []byte {
	t.Helper()
	pair, err := c.ca.Issue("p12.test")
	if err != nil {
		t.Fatal(err)
	}
	content, err := pkcs12.Passwordless.Encode(pair.PrivateKey, pair.Leaf, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// shown is whom the certificate is for that a server shows.
func (f *fixture) shown(t *testing.T, roots *x509.CertPool) string {
	t.Helper()
	conn, err := tls.Dial("tcp", f.addr, &tls.Config{RootCAs: roots, ServerName: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // it has said what was wanted
	return conn.ConnectionState().PeerCertificates[0].DNSNames[0]
}

func TestACertificateIsRenewedWithoutARestartAndABrokenOneIsNotTaken(t *testing.T) {
	t.Parallel()
	files, logged := newCertificates(t), &syncBuffer{}
	files.issue(t, "old.test")
	f := serveTCP(t, server.Config{CertFile: files.cert, KeyFile: files.key, Logger: logged.logger()})
	if got := f.shown(t, files.ca.Pool()); got != "old.test" {
		t.Errorf("the certificate shown is that of %s, want old.test", got)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: files.ca.Pool(), ServerName: "localhost"}}}
	defer client.CloseIdleConnections()
	health := func() {
		t.Helper()
		answer, err := client.Get("https://" + f.addr + "/health")
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(answer.Body)
		if err = errors.Join(err, answer.Body.Close()); err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("health is status %d, %v", answer.StatusCode, err)
		}
	}
	health()
	files.issue(t, "new.test")
	eventually(t, "the new certificate", func() bool { return f.shown(t, files.ca.Pool()) == "new.test" })
	for what, broken := range map[string][]byte{"holds no certificate": nil, "is not in PEM form": files.pkcs12(t)} {
		files.write(t, broken, nil)
		eventually(t, "a word on the broken one", func() bool {
			if got := f.shown(t, files.ca.Pool()); got != "new.test" {
				t.Fatalf("the certificate shown is that of %s, want new.test still", got)
			}
			return strings.Contains(logged.String(), "the changed certificate cannot be used, the one before it stays in use") &&
				strings.Contains(logged.String(), what)
		})
	}
	health() // on the connection of the old one, which goes on
}

func TestAClientIsToldWhyItsCertificateIsRefused(t *testing.T) {
	t.Parallel()
	files := newCertificates(t)
	files.issue(t, "node1.test")
	f := serveTCP(t, server.Config{
		CertFile: files.cert, KeyFile: files.key,
		TLS: &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: files.ca.Pool()},
	})
	// What the client has sent by then must not turn the alert into a reset.
	for range 20 {
		conn, err := tls.Dial("tcp", f.addr, &tls.Config{RootCAs: files.ca.Pool(), ServerName: "localhost", NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write(make([]byte, 10<<10)) // it may be refused while it writes
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "certificate required") {
			t.Fatalf("the client learns %v, want that a certificate is required", err)
		}
		if err := conn.Close(); err != nil && !strings.Contains(err.Error(), "closed") && !strings.Contains(err.Error(), "pipe") && !strings.Contains(err.Error(), "reset") {
			t.Error(err)
		}
	}
}

func TestCertificateSettingsThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	files := newCertificates(t)
	files.issue(t, "a.test")
	pair, err := tls.LoadX509KeyPair(files.cert, files.key)
	if err != nil {
		t.Fatal(err)
	}
	p12 := filepath.Join(t.TempDir(), "a.p12")
	if err := os.WriteFile(p12, files.pkcs12(t), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		config server.Config
		want   string
	}{
		{"files and plaintext", server.Config{Plaintext: true, CertFile: files.cert}, "Plaintext and certificate files are both set"},
		{"a key without a certificate", server.Config{KeyFile: files.key}, "KeyFile is set, and CertFile is not"},
		{"two certificates", server.Config{CertFile: files.cert, TLS: &tls.Config{Certificates: []tls.Certificate{pair}}}, "TLS has a certificate, and CertFile is set"},
		{"TLS without a certificate", server.Config{TLS: &tls.Config{}}, "TLS has no certificate"},
		{"files and names for another certificate", server.Config{CertFile: files.cert, DevelopmentNames: []string{"a"}}, "there is no development certificate"},
		{"a file that is not there", server.Config{CertFile: "none.pem"}, "the file none.pem cannot be read"},
		{"a file without its key", server.Config{CertFile: files.cert}, "holds no private key"},
		{"PKCS#12", server.Config{CertFile: p12}, "a.p12 is not in PEM form"},
		{"PKCS#12 with a key file", server.Config{CertFile: p12, KeyFile: files.key}, "a.p12 is not in PEM form"},
	}
	for _, tt := range tests {
		if _, err := server.New(tt.config); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/internal/devcert"
)

// pemOf encodes a block.
func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// aPair makes a certificate for names and addresses, and its key, both in PEM.
func aPair(t *testing.T, notAfter time.Time, names ...string) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a server"},
		NotBefore: notAfter.Add(-1000 * time.Hour), NotAfter: notAfter,
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pemOf("CERTIFICATE", der), pemOf("PRIVATE KEY", keyDER)
}

func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadKeyPair(t *testing.T) {
	t.Parallel()
	certificate, key := aPair(t, time.Now().Add(time.Hour), "node.test")
	_, other := aPair(t, time.Now().Add(time.Hour), "node.test")
	tests := []struct{ name, cert, key, want string }{
		{name: "a pair", cert: certificate, key: key},
		{name: "text around the blocks", cert: "Subject: me\n" + certificate, key: "key:\n" + key},
		{name: "key of another one", cert: certificate, key: other, want: "does not belong to the first certificate in"},
		{name: "switched", cert: key, key: certificate, want: "holds no certificate"},
		{name: "no key", cert: certificate, key: certificate, want: "holds no private key"},
		{name: "empty", cert: "", key: key, want: "holds no certificate"},
		{name: "damaged certificate", cert: pemOf("CERTIFICATE", []byte("x")), key: key, want: "certificate 1 in the --cert file"},
		{name: "damaged second certificate", cert: certificate + pemOf("CERTIFICATE", []byte("x")), key: key, want: "certificate 2 in"},
		{name: "damaged key", cert: certificate, key: pemOf("PRIVATE KEY", []byte(planted)), want: "the private key in the --key file"},
		{name: "encrypted key", cert: certificate, key: pemOf("ENCRYPTED PRIVATE KEY", []byte(planted)), want: "is encrypted: decrypt it first"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			_, err := readKeyPair(write(t, dir, "cert.pem", tt.cert), write(t, dir, "key.pem", tt.key))
			if tt.want == "" {
				if err != nil {
					t.Errorf("got %v, want no error", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), planted) {
				t.Errorf("got %v, want an error with %q and nothing of the file", err, tt.want)
			}
		})
	}
}

func TestKeysOfAllForms(t *testing.T) {
	t.Parallel()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ecDER, err := x509.MarshalECPrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"EC": pemOf("EC PRIVATE KEY", ecDER), "RSA": pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey)),
	} {
		if err := checkKey("key.pem", []byte(content)); err != nil {
			t.Errorf("%s: got %v, want no error", name, err)
		}
	}
}

func TestServeWithACertificateOfItsOwn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificate, key := aPair(t, time.Now().Add(100*time.Hour), "localhost")
	cert := write(t, dir, "cert.pem", certificate)
	r := begin(t, "serve", "--listen", "127.0.0.1:0", "--cert", cert, "--key", write(t, dir, "key.pem", key))
	r.line()
	line := r.line()
	str, found := strings.CutPrefix(line, "connect with ")
	if !found || !strings.HasPrefix(str, "chronicle://localhost:") || strings.Contains(str, "skipTls") {
		t.Fatalf("got %q, want a string with the certificate's name and validation", line)
	}
	probed := call(t, nil, "", "probe", "--ca", cert, str)
	if probed.status != exitDone || !strings.Contains(probed.stdout, "a server, self-signed, 4 days left") {
		t.Errorf("status %d, want 0 and the certificate:\n%s%s", probed.status, probed.stdout, probed.stderr)
	}
	if _, status := r.end(); status != exitDone || r.stderr.Len() > 0 {
		t.Errorf("status %d, standard error %q, want 0 and nothing", status, r.stderr)
	}
}

func TestServeWarnsOfACertificateThatClientsRefuse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		notAfter time.Time
		names    []string
		want     string
	}{
		{"expired", time.Now().Add(-time.Hour), []string{"localhost"}, "warning: clients will refuse this server: certificate expired on 2"},
		{"not yet valid", time.Now().Add(2000 * time.Hour), []string{"localhost"}, "certificate is not valid before 2"},
		{
			"a CN only", time.Now().Add(time.Hour), nil,
			`certificate names no host in a subjectAltName, and the CN "a server" does not count (RFC 9525)`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			certificate, key := aPair(t, tt.notAfter, tt.names...)
			r := begin(t, "serve", "--listen", "127.0.0.1:0",
				"--cert", write(t, dir, "cert.pem", certificate), "--key", write(t, dir, "key.pem", key))
			r.line()
			_, status := r.end()
			if got := r.stderr.String(); status != exitDone || !strings.Contains(got, tt.want) || strings.Count(got, "warning") != 1 {
				t.Errorf("status %d, standard error %q, want 0 and one warning with %q", status, got, tt.want)
			}
		})
	}
}

// FuzzPEM reads files of strangers as certificates and as keys.
func FuzzPEM(f *testing.F) {
	f.Add([]byte("nothing"))
	f.Add([]byte(pemOf("CERTIFICATE", []byte("x")) + pemOf("PRIVATE KEY", []byte("y"))))
	f.Fuzz(func(t *testing.T, content []byte) {
		certificates, err := certificatesIn("--ca", "ca.pem", content)
		if (err == nil) != (len(certificates) > 0) {
			t.Errorf("%d certificates with error %v", len(certificates), err)
		}
		if err := checkKey("key.pem", content); err == nil && !strings.Contains(string(content), "PRIVATE KEY") {
			t.Error("a key was found where there is none")
		}
	})
}

// clientFiles are an authority, a server's certificate and a client's, in files.
func clientFiles(t *testing.T) (ca, cert, key, client string) {
	t.Helper()
	authority, err := devcert.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := make(map[string]string)
	for _, r := range []devcert.Request{{Names: []string{"localhost", "127.0.0.1"}}, {Names: []string{"app"}, Client: true}} {
		pair, err := authority.IssueFor(r)
		if err != nil {
			t.Fatal(err)
		}
		certPEM, keyPEM, err := devcert.Encode(pair)
		if err != nil {
			t.Fatal(err)
		}
		files[r.Names[0]+".pem"], files[r.Names[0]+"-key.pem"] = string(certPEM), string(keyPEM)
	}
	return write(t, dir, "ca.pem", string(authority.PEM())), write(t, dir, "cert.pem", files["localhost.pem"]),
		write(t, dir, "key.pem", files["localhost-key.pem"]), write(t, dir, "client.pem", files["app.pem"]+files["app-key.pem"])
}

func TestServeLetsInClientsWithACertificateOnly(t *testing.T) {
	t.Parallel()
	ca, cert, key, client := clientFiles(t)
	r := begin(t, "serve", "--listen", "127.0.0.1:0", "--cert", cert, "--key", key, "--client-ca", ca)
	r.line()
	str, _ := strings.CutPrefix(r.line(), "connect with ")
	with := str + "/?certificatePath=" + client
	if got := call(t, nil, "", "probe", "--ca", ca, with); got.status != exitDone {
		t.Errorf("probe with the certificate: status %d\n%s%s", got.status, got.stdout, got.stderr)
	}
	if got := call(t, nil, "", "connect", "--for", "1s", "--jitter", "0", "--ca", ca, with); got.status != exitDone {
		t.Errorf("connect with the certificate: status %d\n%s%s", got.status, got.stdout, got.stderr)
	}
	for _, args := range [][]string{{"probe"}, {"connect", "--for", "1s", "--jitter", "0"}} {
		got := call(t, nil, "", append(args, "--ca", ca, str)...)
		for _, want := range []string{"the server wants a client certificate, and got none", "certificatePath in the connection string"} {
			if got.status != exitFailed || !strings.Contains(got.stderr, want) {
				t.Errorf("%s without it: status %d and %q, want %q", args[0], got.status, got.stderr, want)
			}
		}
	}
	if _, status := r.end(); status != exitDone || !strings.Contains(r.stderr.String(), "clients have to show a certificate") {
		t.Errorf("status %d, standard error %q", status, r.stderr)
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"
)

func TestReach(t *testing.T) {
	t.Parallel()
	certified := func(names ...string) *tls.Certificate {
		certificate, key := aPair(t, time.Now().Add(time.Hour), names...)
		pair, err := tls.X509KeyPair([]byte(certificate), []byte(key))
		if err != nil {
			t.Fatal(err)
		}
		return &pair
	}
	tests := []struct {
		name, addr  string
		certificate *tls.Certificate
		plaintext   bool
		want        string
		note        string // a part of it
	}{
		{name: "development", addr: "127.0.0.1:5", want: "chronicle://127.0.0.1:5/?skipTlsValidation=true"},
		{name: "IPv6", addr: "[::1]:5", want: "chronicle://[::1]:5/?skipTlsValidation=true"},
		{name: "all addresses", addr: "[::]:5", want: "chronicle://localhost:5/?skipTlsValidation=true"},
		{name: "plaintext", addr: "127.0.0.1:5", plaintext: true, want: "chronicle://127.0.0.1:5"},
		{
			name: "the address that the certificate has", addr: "127.0.0.1:5",
			certificate: certified("node-1", "127.0.0.1"), want: "chronicle://127.0.0.1:5",
		},
		{
			name: "all addresses, of which the certificate has one", addr: "[::]:5",
			certificate: certified("node-1", "127.0.0.1"), want: "chronicle://127.0.0.1:5",
		},
		{
			name: "all addresses, of which the certificate has one of IPv6", addr: "[::]:5",
			certificate: certified("node-1", "::1"), want: "chronicle://[::1]:5",
		},
		{name: "localhost", addr: "127.0.0.1:5", certificate: certified("node-1", "localhost"), want: "chronicle://localhost:5"},
		{
			name: "localhost is not that address", addr: "192.0.2.1:5",
			certificate: certified("localhost"), want: "chronicle://localhost:5", note: "where localhost leads to it",
		},
		{
			name: "a name that may lead elsewhere", addr: "127.0.0.1:5",
			certificate: certified("node.test"), want: "chronicle://node.test:5", note: "where node.test leads to it",
		},
		{
			name: "a wildcard is no name to dial", addr: "127.0.0.1:5",
			certificate: certified("*.test", "node.test"), want: "chronicle://node.test:5", note: "where node.test leads to it",
		},
		{
			name: "nothing but a wildcard", addr: "127.0.0.1:5",
			certificate: certified("*.test"), want: "chronicle://127.0.0.1:5", note: "names no host",
		},
		{
			name: "an address of IPv6 where only IPv4 listens", addr: "0.0.0.0:5",
			certificate: certified("::1"), want: "chronicle://[::1]:5", note: "where ::1 leads to it",
		},
		{name: "no name at all", addr: "[::]:5", certificate: certified(), want: "chronicle://localhost:5"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			addr, err := net.ResolveTCPAddr("tcp", tt.addr)
			if err != nil {
				t.Fatal(err)
			}
			got, note, err := reach(addr, tt.certificate, tt.plaintext)
			if err != nil {
				t.Fatal(err)
			}
			if text := strings.TrimSuffix(got.String(), "/"); text != tt.want {
				t.Errorf("connection string: got %s, want %s", text, tt.want)
			}
			if !strings.Contains(note, tt.note) || (note == "") != (tt.note == "") {
				t.Errorf("note: got %q, want one with %q", note, tt.note)
			}
		})
	}
}

// TestServePrintsWhatAClientOnThisMachineConnectsWith takes a certificate as nodes have it, with a name that only the
// cluster's name servers know.
func TestServePrintsWhatAClientOnThisMachineConnectsWith(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificate, key := aPair(t, time.Now().Add(time.Hour), "node-1.invalid", "127.0.0.1")
	cert := write(t, dir, "cert.pem", certificate)
	r := begin(t, "serve", "--listen", ":0", "--cert", cert, "--key", write(t, dir, "key.pem", key))
	r.line()
	text, found := strings.CutPrefix(r.line(), "connect with ")
	if !found {
		t.Fatal("serve does not say what to connect with")
	}
	if got := call(t, nil, "", "probe", "--ca", cert, text); got.status != exitDone {
		t.Errorf("probe %s: status %d, want %d: %s", text, got.status, exitDone, got.stderr)
	}
	if _, status := r.end(); status != exitDone || r.stderr.Len() > 0 {
		t.Errorf("status %d, standard error %q, want 0 and nothing", status, r.stderr)
	}
}

func TestServeWarnsOfANameThatMayLeadElsewhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificate, key := aPair(t, time.Now().Add(time.Hour), "node-1.invalid")
	r := begin(t, "serve", "--listen", "127.0.0.1:0",
		"--cert", write(t, dir, "cert.pem", certificate), "--key", write(t, dir, "key.pem", key))
	r.line()
	last, status := r.end()
	if status != exitDone || !strings.HasPrefix(last, "connect with chronicle://node-1.invalid:") {
		t.Errorf("status %d after %q, want 0 after a string with the certificate's name", status, last)
	}
	if want := "warning: the certificate does not name this machine: clients reach the server where node-1.invalid leads to it"; !strings.Contains(r.stderr.String(), want) {
		t.Errorf("standard error %q, want %q in it", r.stderr, want)
	}
}

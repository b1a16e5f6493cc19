// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package test_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/internal/devcert"
)

// lookInterval is how often a count is looked at: it changes without an event.
const lookInterval = 10 * time.Millisecond

// loopback is a loopback address of which there are several on Linux only. They count from 1.
func loopback(number int) string {
	if runtime.GOOS != "linux" {
		number = 1
	}
	return "127.0.0." + strconv.Itoa(number)
}

// authority is a certificate authority of a test and a folder for what it issues.
type authority struct {
	t         *testing.T
	ca        *devcert.CA
	directory string
	// file holds the authority's own certificate.
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	ca, err := devcert.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, ca: ca, directory: t.TempDir()}
	a.file = a.write("ca.pem", ca.PEM())
	return a
}

// issue returns the files of a certificate for the names, and of its key.
func (a *authority) issue(names ...string) (cert, key string) {
	a.t.Helper()
	issued, err := a.ca.Issue(names...)
	if err != nil {
		a.t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(issued.PrivateKey)
	if err != nil {
		a.t.Fatal(err)
	}
	cert = a.write(names[0]+".pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issued.Certificate[0]}))
	key = a.write(names[0]+"-key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	return cert, key
}

// write writes a file and returns its path.
func (a *authority) write(name string, content []byte) string {
	a.t.Helper()
	path := filepath.Join(a.directory, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// serveReport is the object that serve --json documents.
type serveReport struct {
	Listening        string `json:"listening"`
	ConnectionString string `json:"connection_string"`
	Name             string `json:"name"`
}

// serving is a running "evenkeel serve".
type serving struct {
	*process
	serveReport
	client *http.Client // asks it about its count, from another address than its clients where there is one
}

// serve starts a server on a free port of an address and waits until it says where it listens.
func serve(ctx context.Context, t *testing.T, host string, args ...string) *serving {
	t.Helper()
	args = append([]string{"serve", "--listen", net.JoinHostPort(host, "0"), "--json"}, args...)
	s := &serving{process: start(t, evenkeel, args...)}
	strict(t, s.firstLine(ctx), &s.serveReport)
	s.client = &http.Client{Transport: &http.Transport{
		// What the count is does not depend on who the server is; other tests check certificates.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a server of this test
	}}
	t.Cleanup(s.client.CloseIdleConnections)
	return s
}

// port is the port that the server listens on.
func (s *serving) port() string {
	s.t.Helper()
	_, port, err := net.SplitHostPort(s.Listening)
	if err != nil {
		s.t.Fatalf("serve says that it listens on %q: %v", s.Listening, err)
	}
	return port
}

// count asks the server how many clients and reservations it has.
func (s *serving) count(ctx context.Context) int {
	s.t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.Listening+"/connections/count", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	status, body, err := answerTo(s.client, request)
	if err != nil {
		s.t.Fatalf("ask %s for its count: %v", s.Listening, err)
	}
	n, err := strconv.Atoi(body)
	if err != nil || status != http.StatusOK {
		s.t.Fatalf("count of %s is status %d with %q", s.Listening, status, body)
	}
	return n
}

// answerTo makes a request and returns what the answer is.
func answerTo(client *http.Client, request *http.Request) (status int, body string, err error) {
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), errors.Join(err, response.Body.Close())
}

// awaitCount waits until the counts of the servers add up to n.
func awaitCount(ctx context.Context, t *testing.T, n int, servers ...*serving) {
	t.Helper()
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		sum := 0
		for _, s := range servers {
			sum += s.count(ctx)
		}
		if sum == n {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("the servers count %d clients and reservations, want %d", sum, n)
		}
	}
}

// strict decodes a JSON object that has no other fields than those of the target.
func strict(t *testing.T, line string, target any) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(target); err != nil {
		t.Fatalf("decode %q: %v", line, err)
	}
	if decoder.More() {
		t.Fatalf("more than one object in %q", line)
	}
}

func number(n int) string { return strconv.Itoa(n) }

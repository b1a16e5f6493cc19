// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package test_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/evenkeel-go/evenkeel/internal/need"
)

// How many clients hold sessions on the port while curl asks for the count.
const portClients = 5

// trust is a way to serve and to trust the server.
type trust struct {
	name    string
	scheme  string
	serve   []string
	connect []string
	query   string // of the clients' connection string
	curl    []string
}

// trusts are a certificate that is checked, one that is not, and none.
func trusts(ca *authority) []trust {
	cert, key := ca.issue("node1.test", loopback(1))
	return []trust{
		{
			name: "a certificate that is verified", scheme: "https",
			serve: []string{"--cert", cert, "--key", key}, connect: []string{"--ca", ca.file},
			curl: []string{"--cacert", ca.file},
		},
		{
			name: "a development certificate", scheme: "https",
			query: "/?skipTlsValidation=true", curl: []string{"--insecure"},
		},
		{
			name: "plaintext", scheme: "http",
			serve: []string{"--plaintext"}, connect: []string{"--plaintext"},
		},
	}
}

// curlCase is a request, and what curl tells of the answer. A body of "COUNT" is the number of clients.
type curlCase struct {
	name string
	args []string
	path string
	want curlAnswer
}

type curlAnswer struct{ status, contentType, body string }

func curlCases() []curlCase {
	const jsonType, textType = "application/json; charset=utf-8", "text/plain"
	return []curlCase{
		{name: "count", path: "/connections/count", want: curlAnswer{"200", jsonType, "COUNT"}},
		{name: "count by HEAD", args: []string{"--head", "--output", "/dev/null"}, path: "/connections/count", want: curlAnswer{"200", jsonType, ""}},
		{name: "health", path: "/health", want: curlAnswer{"200", textType, "Healthy"}},
		{name: "reserve", args: []string{"--request", "POST"}, path: "/connections/reserve", want: curlAnswer{"200", "", ""}},
		{
			// Not --json, which asks for a JSON answer and so for a reservation with an id.
			name: "reserve with a body", args: []string{"--header", "Content-Type: application/json", "--data", "{}"}, path: "/connections/reserve",
			want: curlAnswer{"200", "", ""},
		},
	}
}

// curl speaks HTTP/1.1 and HTTP/2 with the port on which sessions stand, and gets what it asked for.
func TestOnePortServesCurlBesideSessions(t *testing.T) {
	t.Parallel()
	needSignals(t)
	curl := curlWithHTTP2(t)
	for _, tr := range trusts(newAuthority(t)) {
		t.Run(tr.name, func(t *testing.T) {
			busy(t)
			ctx := within(t)
			s := serve(ctx, t, loopback(1), tr.serve...)
			clients := connect(t, "chronicle://"+s.Listening+tr.query, portClients, tr.connect...)
			clients.awaitAll(ctx, "")
			// A single candidate is not reserved on, so the count is that of the clients and of curl's reservations.
			reservations := 0
			for _, version := range []string{"1.1", "2"} {
				for _, c := range curlCases() {
					args := append(append(versionFlags(tr, version), tr.curl...), c.args...)
					got, spoke := ask(ctx, t, curl, append(args, tr.scheme+"://"+s.Listening+c.path)...)
					want := c.want
					if want.body == "COUNT" {
						want.body = number(portClients + reservations)
					}
					if got != want || spoke != version {
						t.Errorf("%s over HTTP/%s: got %+v over HTTP/%s, want %+v", c.name, version, got, spoke, want)
					}
					if strings.HasPrefix(c.name, "reserve") {
						reservations++
					}
				}
			}
			if got := clients.finish(ctx); got.Lost != 0 || got.FailedAttempts != 0 {
				t.Errorf("the sessions did not stay up: %+v", got)
			}
		})
	}
}

// versionFlags make curl speak a version of HTTP. Without TLS nothing can be negotiated, so HTTP/2 has to be known.
func versionFlags(tr trust, version string) []string {
	switch {
	case version == "1.1":
		return []string{"--http1.1"}
	case tr.scheme == "http":
		return []string{"--http2-prior-knowledge"}
	default:
		return []string{"--http2"}
	}
}

// That curl accepts the certificate of the suite's own authority proves something only if it refuses others.
func TestOnePortShowsCertificatesThatCurlChecks(t *testing.T) {
	busy(t)
	curl := curlWithHTTP2(t)
	ctx := within(t)
	ca, stranger := newAuthority(t), newAuthority(t)
	cert, key := ca.issue("node1.test", loopback(1))
	s := serve(ctx, t, loopback(1), "--cert", cert, "--key", key)
	const untrusted = 60 // curl's exit status for a certificate that it cannot verify
	for _, args := range [][]string{{"--cacert", stranger.file}, {}} {
		p := start(t, curl, append(append([]string{"-q", "--silent"}, args...), "https://"+s.Listening+"/health")...)
		if got := p.wait(ctx); got != untrusted || p.out.String() != "" {
			t.Errorf("curl with %v ended with status %d and wrote %q, want status %d", args, got, p.out.String(), untrusted)
		}
	}
	// The authority's name for the server is accepted as well as its address.
	named := "https://node1.test:" + s.port() + "/health"
	got, _ := ask(ctx, t, curl, "--cacert", ca.file, "--resolve", "node1.test:"+s.port()+":"+loopback(1), named)
	if got.body != "Healthy" {
		t.Errorf("curl got %+v from the server by name", got)
	}
}

// curlWithHTTP2 finds a curl that can speak HTTP/2.
func curlWithHTTP2(t *testing.T) string {
	t.Helper()
	path := find(t, "curl")
	version, err := exec.CommandContext(within(t), path, "--version").Output()
	if err != nil {
		t.Fatalf("curl --version: %v", err)
	}
	if !strings.Contains(string(version), "HTTP2") {
		need.Missing(t, "%s was built without HTTP/2", path)
	}
	return path
}

// ask runs curl and returns what it got, and over which version of HTTP.
func ask(ctx context.Context, t *testing.T, curl string, args ...string) (answer curlAnswer, version string) {
	t.Helper()
	const format = "\n%{http_code}\n%{http_version}\n%{content_type}\n"
	p := start(t, curl, append([]string{"-q", "--silent", "--show-error", "--max-time", "10", "--write-out", format}, args...)...)
	if status := p.wait(ctx); status != 0 {
		t.Fatalf("curl %q ended with status %d: %s", args, status, p.errs)
	}
	lines := strings.Split(strings.TrimSuffix(p.out.String(), "\n"), "\n")
	if len(lines) != 4 {
		t.Fatalf("curl %q wrote %q", args, p.out)
	}
	return curlAnswer{body: lines[0], status: lines[1], contentType: lines[3]}, lines[2]
}

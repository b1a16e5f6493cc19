// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel-go/evenkeel/server"
)

func TestPaths(t *testing.T) {
	t.Parallel()
	const text, json = "text/plain", "application/json; charset=utf-8"
	const plain = "text/plain; charset=utf-8"
	tests := []struct {
		method, path string
		status       int
		contentType  string
		body         string
		allow        string
	}{
		{"GET", "/connections/count", 200, json, "0", ""},
		{"HEAD", "/connections/count", 200, json, "", ""},
		{"GET", "/connections/count?x=y", 200, json, "0", ""},
		{"POST", "/connections/count", 405, plain, "method not allowed\n", "GET, HEAD"},
		{"OPTIONS", "/connections/count", 405, plain, "method not allowed\n", "GET, HEAD"},
		{"GET", "/health", 200, text, "Healthy", ""},
		{"HEAD", "/health", 200, text, "", ""},
		{"DELETE", "/health", 405, plain, "method not allowed\n", "GET, HEAD"},
		{"POST", "/connections/reserve", 200, "", "", ""},
		{"GET", "/connections/reserve", 405, plain, "method not allowed\n", "POST"},
		{"HEAD", "/connections/reserve", 405, plain, "", "POST"},
		{"PUT", "/connections/reserve", 405, plain, "method not allowed\n", "POST"},
		{"GET", "/", 404, plain, "404 page not found\n", ""},
		{"GET", "/connections", 404, plain, "404 page not found\n", ""},
		{"GET", "/connections/count/", 404, plain, "404 page not found\n", ""},
		{"GET", "/Connections/Count", 404, plain, "404 page not found\n", ""},
	}
	for _, version := range []int{1, 2} {
		for _, tt := range tests {
			t.Run(strconv.Itoa(version)+" "+tt.method+" "+tt.path, func(t *testing.T) {
				t.Parallel()
				f := serveTCP(t, server.Config{})
				got := do(t, f.httpClient(t, version), tt.method, f.url(tt.path), nil)
				if got.ProtoMajor != version {
					t.Errorf("protocol: got %s, want HTTP/%d", got.Proto, version)
				}
				if got.StatusCode != tt.status || got.body != tt.body {
					t.Errorf("got %d %q, want %d %q", got.StatusCode, got.body, tt.status, tt.body)
				}
				if h := got.Header.Get("Content-Type"); h != tt.contentType {
					t.Errorf("content type: got %q, want %q", h, tt.contentType)
				}
				if h := got.Header.Get("Allow"); h != tt.allow {
					t.Errorf("allow: got %q, want %q", h, tt.allow)
				}
				if h := got.Header.Get("Cache-Control"); tt.status != 404 && h != "no-store" {
					t.Errorf("cache control: got %q, want no-store", h)
				}
			})
		}
	}
}

func TestHeadAnswersAsGetDoes(t *testing.T) {
	t.Parallel()
	f := serveTCP(t, server.Config{})
	client := f.httpClient(t, 1)
	for _, path := range []string{"/connections/count", "/health"} {
		get, head := do(t, client, "GET", f.url(path), nil), do(t, client, "HEAD", f.url(path), nil)
		get.Header.Del("Date")
		head.Header.Del("Date")
		if diff := cmp.Diff(get.Header, head.Header); diff != "" {
			t.Errorf("headers of %s (-GET +HEAD):\n%s", path, diff)
		}
	}
}

// A request may come without any header, as HTTP/1.0 allows, and as some clients do in effect.
func TestNoRequestHeaderIsNeeded(t *testing.T) {
	t.Parallel()
	f := serveTCP(t, server.Config{Plaintext: true})
	for _, request := range []string{"GET /connections/count HTTP/1.0\r\n\r\n", "POST /connections/reserve HTTP/1.0\r\n\r\n"} {
		conn, err := net.Dial("tcp", f.addr)
		if err != nil {
			t.Fatalf("dial: %v", err)
		}
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatalf("write: %v", err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%q: got %v, %v, want 200", request, response, err)
		}
		if err := response.Body.Close(); err != nil {
			t.Errorf("close the answer: %v", err)
		}
		if err := conn.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

func TestReserveIgnoresBodyAndContentType(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, contentType string
		body              io.Reader
		reused            bool // whether the connection serves the next request
	}{
		{"none", "", nil, true},
		{"empty object", "application/json", strings.NewReader("{}"), true},
		{"no JSON", "application/json", strings.NewReader("{"), true},
		{"chunked", "text/xml", io.MultiReader(strings.NewReader("<a/>")), true},
		{"long", "application/octet-stream", strings.NewReader(strings.Repeat("x", 1<<20)), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := serveTCP(t, server.Config{})
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url("/connections/reserve"), tt.body)
			if err != nil {
				t.Fatalf("new request: %v", err)
			}
			request.Header.Set("Content-Type", tt.contentType)
			response, err := f.httpClient(t, 1).Do(request)
			if err != nil {
				t.Fatalf("reserve: %v", err)
			}
			if err := response.Body.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			if response.StatusCode != http.StatusOK || response.Close == tt.reused {
				t.Errorf("got %d, close %v, want 200, close %v", response.StatusCode, response.Close, !tt.reused)
			}
			if got := f.Registry().Count(); got != 1 {
				t.Errorf("count: got %d, want 1", got)
			}
		})
	}
}

// A body that was announced and never comes must not hold the server's goroutine for ever.
func TestReserveDoesNotWaitForABody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := serveMemory(t, server.Config{Plaintext: true})
		conn, err := f.dial(t.Context(), "", "")
		if err != nil {
			t.Fatalf("dial: %v", err)
		}
		defer func() { _ = conn.Close() }()
		begin := time.Now()
		if _, err := io.WriteString(conn, "POST /connections/reserve HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"); err != nil {
			t.Fatalf("write: %v", err)
		}
		reader := bufio.NewReader(conn)
		response, err := http.ReadResponse(reader, nil)
		if err != nil || response.StatusCode != http.StatusOK || !response.Close {
			t.Fatalf("got %v, %v, want 200 and a close", response, err)
		}
		_ = response.Body.Close() // empty
		if _, err := reader.ReadByte(); err != io.EOF {
			t.Errorf("after the answer: got %v, want the end of the connection", err)
		}
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("took %v, want 3 s at most", took)
		}
	})
}

// Behind a wrapper that hides net/http's writer there is no deadline to set, and that is all there is to it.
func TestHandlerWorksWithoutResponseController(t *testing.T) {
	t.Parallel()
	registry := server.NewRegistry(server.RegistryConfig{})
	recorder := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodPost, "/connections/reserve", strings.NewReader("{}"))
	registry.Handler().ServeHTTP(recorder, request)
	if recorder.Code != http.StatusOK || registry.Count() != 1 {
		t.Errorf("got %d, count %d, want 200 and 1", recorder.Code, registry.Count())
	}
}

func TestClosedRegistryIsUnhealthy(t *testing.T) {
	t.Parallel()
	registry := server.NewRegistry(server.RegistryConfig{})
	f := serveTCP(t, server.Config{Registry: registry})
	registry.Close()
	client := f.httpClient(t, 1)
	if got := do(t, client, "GET", f.url("/health"), nil); got.StatusCode != http.StatusServiceUnavailable || got.body != "Unhealthy" {
		t.Errorf("health: got %d %q, want 503 Unhealthy", got.StatusCode, got.body)
	}
	if got := f.reserve(t, client); got != 503 {
		t.Errorf("reserve: got %d, want 503", got)
	}
}

func TestOtherPathsGoToTheUsersHandler(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		if _, err := io.WriteString(w, "mine: "+req.URL.Path); err != nil {
			t.Errorf("write: %v", err)
		}
	})
	f := serveTCP(t, server.Config{Handler: mux})
	client := f.httpClient(t, 2)
	if got := do(t, client, "GET", f.url("/dashboard"), nil).body; got != "mine: /dashboard" {
		t.Errorf("other path: got %q, want the user's answer", got)
	}
	if got := do(t, client, "GET", f.url("/connections/count"), nil).body; got != "0" {
		t.Errorf("count: got %q, want 0", got)
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"net/http"
	"strings"
	"sync"
)

// serveHTTP routes the requests of connections that net/http serves.
func (s *Server) serveHTTP(w http.ResponseWriter, req *http.Request) {
	if isGRPC(req) {
		if isFollowed(req.URL.Path) {
			w, req = follow(w, req)
		}
		s.grpc.ServeHTTP(w, req)
		return
	}
	switch req.URL.Path {
	case countPath, reservePath, healthPath:
		bounded(w, req, s.probes, s.registry.serveHTTP)
		return
	}
	if _, ok := releaseID(req.URL.Path); ok {
		bounded(w, req, s.probes, s.registry.serveHTTP)
		return
	}
	if auth := s.config.Auth; auth != nil && req.URL.Path == TokenPath {
		bounded(w, req, s.requests, auth.serveToken)
		return
	}
	s.work.enter()
	defer s.work.leave()
	bounded(w, req, s.requests, s.config.Handler.ServeHTTP)
	hurryBody(w, req)
}

// bounded answers a request when there is a place for it, and 503 otherwise.
func bounded(w http.ResponseWriter, req *http.Request, places *admission, handle http.HandlerFunc) {
	from := sourceOfText(req.RemoteAddr)
	if !places.enter(from) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests at a time", http.StatusServiceUnavailable)
		hurryBody(w, req)
		return
	}
	defer places.leave(from)
	handle(w, req)
}

// isGRPC tells a gRPC request from others by its content type, which must be exact or be followed by "+" or ";": gRPC-Web
// begins with the same letters.
func isGRPC(req *http.Request) bool {
	if req.ProtoMajor != 2 {
		return false
	}
	rest, ok := strings.CutPrefix(req.Header.Get("Content-Type"), "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// inFlight counts what is running, handlers or handshakes, so that closing can wait for it; http.Server.Close does not.
// Counting and the beginning of the wait exclude each other, or what is just being counted could be missed. The zero value
// is ready.
type inFlight struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// track counts what a handler does. Requests that come after wait has been called get 503; their connections are closed
// already.
func (f *inFlight) track(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !f.enter() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		defer f.leave()
		handler.ServeHTTP(w, req)
	})
}

func (f *inFlight) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.wg.Add(1)
	return true
}

func (f *inFlight) leave() { f.wg.Done() }

// wait lets nothing start any more and waits for what runs.
func (f *inFlight) wait() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.wg.Wait()
}

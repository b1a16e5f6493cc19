// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/evenkeel-go/evenkeel/internal/extension"
)

// Paths of the HTTP side, all of them anonymous.
const (
	countPath   = "/connections/count"
	reservePath = "/connections/reserve"
	healthPath  = "/health"
)

// What is taken of a body that nobody reads: so much, for so long. It keeps the connection of a client that sends a short
// body, and cuts that of one which sends a long one or none of what it announced.
const (
	maxIgnoredBody    = 4096
	ignoredBodyWithin = 2 * time.Second
)

// answerWithin is how long the client of an HTTP/2 stream may take to make room for an answer of a few bytes.
const answerWithin = 10 * time.Second

// Header values that never change, shared so that an answer does not allocate them. Their capacity is 1: whoever appends
// to one gets a copy.
//
//nolint:gochecknoglobals // constants, as far as the language allows
var (
	jsonType = []string{"application/json; charset=utf-8"}
	textType = []string{"text/plain"}
	noStore  = []string{"no-store"}
)

// Handler returns the HTTP side: GET /connections/count, POST /connections/reserve, DELETE /connections/reserve/ID and
// GET /health; HEAD works as GET does. Any other path is 404, any other method 405. Mount it at those paths of a mux of your
// own, unchanged; it needs no authentication in front and requires no request header.
//
// The peer that a reservation is booked to is the request's RemoteAddr, so behind an HTTP proxy all clients are one.
func (r *Registry) Handler() http.Handler {
	return http.HandlerFunc(r.serveHTTP)
}

func (r *Registry) serveHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header()["Cache-Control"] = noStore
	if req.ProtoMajor == 2 {
		// On HTTP/2 a client may leave no room even for a short answer. As in dropBody a writer without deadlines is left alone.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerWithin))
	}
	hurryBody(w, req)
	switch req.URL.Path {
	case countPath:
		if readOnly(w, req) {
			r.serveCount(w, req)
		}
	case reservePath:
		r.serveReserve(w, req)
	case healthPath:
		if readOnly(w, req) {
			r.serveHealth(w, req)
		}
	default:
		if id, ok := releaseID(req.URL.Path); ok {
			r.serveRelease(w, req, id)
			return
		}
		http.NotFound(w, req)
	}
}

// readOnly lets GET and HEAD through and answers 405 to the rest.
func readOnly(w http.ResponseWriter, req *http.Request) bool {
	if req.Method == http.MethodGet || req.Method == http.MethodHead {
		return true
	}
	refuseMethod(w, "GET, HEAD")
	return false
}

func refuseMethod(w http.ResponseWriter, allow string) {
	w.Header().Set("Allow", allow)
	http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
}

func (r *Registry) serveCount(w http.ResponseWriter, req *http.Request) {
	if p := r.phase(); p != phaseServing {
		w.Header().Set(extension.Draining, "true")
		refusePhase(w, req, p)
		return
	}
	w.Header()["Content-Type"] = jsonType
	r.tellLoad(w.Header())
	var digits [20]byte
	write(w, req, strconv.AppendInt(digits[:0], int64(r.Count()), 10))
}

func (r *Registry) serveHealth(w http.ResponseWriter, req *http.Request) {
	p := r.phase()
	if p != phaseServing {
		refusePhase(w, req, p)
		return
	}
	w.Header()["Content-Type"] = textType
	write(w, req, []byte(p.String()))
}

// refusePhase answers 503, which every client takes for a server that is not to be picked.
func refusePhase(w http.ResponseWriter, req *http.Request, p phase) {
	w.Header()["Content-Type"] = textType
	text := []byte(p.String())
	if req.Method == http.MethodHead {
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	write(w, req, text)
}

// write answers with a short body. net/http finds its length, save for HEAD, where no body is written at all.
func write(w http.ResponseWriter, req *http.Request, body []byte) {
	if req.Method == http.MethodHead {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		return
	}
	// An error here means that the client has gone; there is nobody left to tell.
	_, _ = w.Write(body)
}

// hurryBody bounds how long the body of a request is waited for from now on. Left to itself net/http would read up to
// 256 KiB of what a handler has left over to keep the connection, and wait without end for what was announced and never
// comes.
func hurryBody(w http.ResponseWriter, req *http.Request) {
	if req.ContentLength == 0 {
		return
	}
	// Where the writer is somebody's wrapper that has no deadline, the server's own read timeout is what is left.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(ignoredBodyWithin))
}

// dropBody reads a short body and forgets it. A longer one is not worth the connection.
func dropBody(w http.ResponseWriter, req *http.Request) {
	if req.ContentLength == 0 {
		return
	}
	n, err := io.CopyN(io.Discard, req.Body, maxIgnoredBody+1)
	if (n > maxIgnoredBody || !errors.Is(err, io.EOF)) && req.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
}

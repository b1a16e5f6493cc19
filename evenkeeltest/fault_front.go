// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeeltest

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/evenkeel-go/evenkeel/server"
)

// The HTTP paths of a server that faults are for.
const (
	countPath   = "/connections/count"
	tokenPath   = server.TokenPath
	reservePath = "/connections/reserve"
	healthPath  = "/health"
)

// front serves the connections whose faults the real server offers no place for, from the same registry: HTTP with
// spoiled answers, and gRPC with GOAWAY. Connections get here only while such a fault is set. It belongs to one life of
// a server.
type front struct {
	config Config
	real   *server.Server
	auth   *server.Authenticator // nil where nobody is asked for a token
	tls    *tls.Config           // nil in plaintext
	faults *faults

	http    *http.Server
	web     *handoff
	done    chan struct{} // closed by close
	serving sync.WaitGroup

	mu       sync.Mutex
	closed   bool                            // guarded by mu
	handlers sync.WaitGroup                  // added to under mu, while not closed
	goAway   map[time.Duration]*goAwayServer // guarded by mu
}

// goAwayServer is a gRPC server whose connections end with GOAWAY at a certain age.
type goAwayServer struct {
	grpc  *grpc.Server
	conns *handoff
}

func newFront(config Config, run *serverRun, f *faults) *front {
	settings := run.listener.tls
	fr := &front{
		config: config, real: run.server, auth: run.auth, tls: settings, faults: f,
		web: newHandoff(), done: make(chan struct{}), goAway: make(map[time.Duration]*goAwayServer),
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(settings != nil)
	protocols.SetUnencryptedHTTP2(settings == nil)
	fr.http = &http.Server{
		Handler: http.HandlerFunc(fr.serveHTTP), Protocols: protocols,
		// As many as the real server allows: a prober that clients share has many requests waiting where answers are slow.
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: 1000},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	// Serve ends when close closes the listener, with an error that says no more.
	fr.serving.Go(func() { _ = fr.http.Serve(fr.web) })
	return fr
}

// takeHTTP serves a connection of an HTTP client from its first byte.
func (f *front) takeHTTP(c net.Conn) {
	if f.tls != nil {
		c = tls.Server(c, f.tls) // net/http runs the handshake
	}
	f.web.give(c)
}

// takeGRPC serves a connection of a gRPC client from its first byte, up to that age.
func (f *front) takeGRPC(c net.Conn, age time.Duration) {
	f.mu.Lock()
	s := f.goAway[age]
	if s == nil && !f.closed {
		s = f.newGoAway(age)
		f.goAway[age] = s
	}
	f.mu.Unlock()
	if s == nil {
		_ = c.Close() // the server is being killed
		return
	}
	s.conns.give(c)
}

func (f *front) newGoAway(age time.Duration) *goAwayServer {
	options := append([]grpc.ServerOption{
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}, f.faults.options(f.config)...)
	if f.auth != nil {
		options = append(f.auth.ServerOptions(), options...)
	}
	options = append(options,
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: age}),
		grpc.Creds(credentials.NewTLS(f.tls)), grpc.WaitForHandlers(true))
	s := &goAwayServer{grpc: grpc.NewServer(options...), conns: newHandoff()}
	f.real.Registry().Register(s.grpc)
	if f.config.Services != nil {
		f.config.Services(s.grpc)
	}
	// Serve ends when close closes the listener, with an error that says no more.
	f.serving.Go(func() { _ = s.grpc.Serve(s.conns) })
	return s
}

// close ends everything; the connections are closed by their listener before.
func (f *front) close() {
	f.mu.Lock()
	f.closed = true
	all := f.goAway
	f.mu.Unlock()
	close(f.done)
	_ = f.http.Close() // the handoff's Close does not fail
	f.web.drop()
	for _, s := range all {
		s.grpc.Stop()
		s.conns.drop()
	}
	f.serving.Wait()
	f.handlers.Wait()
}

// serveHTTP answers as the real server does, save for what the fault spoils.
func (f *front) serveHTTP(w http.ResponseWriter, req *http.Request) {
	f.mu.Lock()
	closed := f.closed
	if !closed {
		f.handlers.Add(1)
	}
	f.mu.Unlock()
	if closed {
		return
	}
	defer f.handlers.Done()
	path := req.URL.Path
	isGRPC := req.ProtoMajor == 2 && strings.HasPrefix(req.Header.Get("Content-Type"), "application/grpc")
	fault, _ := f.faults.load()
	switch {
	case isGRPC && fault.Bare401:
		w.WriteHeader(http.StatusUnauthorized)
	case isGRPC:
		f.real.GRPC().ServeHTTP(w, req)
	case path == countPath && f.spoil(w, req, func(now Fault) HTTPFault { return now.Count }):
	case path == reservePath && f.spoil(w, req, func(now Fault) HTTPFault { return now.Reserve }):
	case path == tokenPath && f.spoil(w, req, func(now Fault) HTTPFault { return now.Token }):
	case path == tokenPath && f.auth != nil:
		f.auth.Handler().ServeHTTP(w, req)
	case path == countPath, path == reservePath, path == healthPath, strings.HasPrefix(path, reservePath+"/"):
		f.answerProbe(w, req, fault)
	case f.config.Handler != nil && f.auth != nil:
		f.auth.Require(f.config.Handler).ServeHTTP(w, req)
	case f.config.Handler != nil:
		f.config.Handler.ServeHTTP(w, req)
	default:
		http.NotFound(w, req)
	}
}

// spoil makes the request wait and answers it, where the fault says so. It returns false when the real answer is due.
func (f *front) spoil(w http.ResponseWriter, req *http.Request, of func(Fault) HTTPFault) bool {
	now, changed := f.faults.load()
	for of(now).Hang {
		select {
		case <-changed:
			now, changed = f.faults.load()
		case <-req.Context().Done():
			return true
		case <-f.done: // the context may not tell of it, as long as nobody reads the body
			return true
		}
	}
	fault := of(now)
	if fault.Delay > 0 {
		timer := time.NewTimer(fault.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-req.Context().Done():
			return true
		case <-f.done: // the context may not tell of it, as long as nobody reads the body
			return true
		}
	}
	if fault.Abort {
		panic(http.ErrAbortHandler) //nolint:forbidigo // net/http's way to break a request off
	}
	if !fault.replaces() {
		return false
	}
	f.replace(w, req, fault)
	return true
}

// headerPiece is how long each field of an oversized header is.
const headerPiece = 4096

// replace gives the answer that the fault says. The client may be gone at any time.
func (f *front) replace(w http.ResponseWriter, req *http.Request, fault HTTPFault) {
	if fault.ContentType != "" {
		w.Header().Set("Content-Type", fault.ContentType)
	}
	for sent := 0; sent < fault.HeaderBytes; sent += headerPiece {
		w.Header().Add("X-Filler", strings.Repeat("x", headerPiece))
	}
	status := fault.Status
	if fault.Location != "" {
		w.Header().Set("Location", fault.Location)
		if status == 0 {
			status = http.StatusTemporaryRedirect
		}
	}
	if status != 0 {
		w.WriteHeader(status)
	}
	if fault.Drip > 0 {
		f.drip(w, req, fault)
	} else {
		_, _ = io.WriteString(w, fault.Body)
	}
	for filler := strings.Repeat(" ", headerPiece); fault.Endless; {
		if _, err := io.WriteString(w, filler); err != nil {
			return
		}
	}
}

// drip sends the body byte by byte.
func (f *front) drip(w http.ResponseWriter, req *http.Request, fault HTTPFault) {
	ticker := time.NewTicker(fault.Drip)
	defer ticker.Stop()
	out := http.NewResponseController(w)
	for i := range len(fault.Body) {
		if _, err := io.WriteString(w, fault.Body[i:i+1]); err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-ticker.C:
		case <-req.Context().Done():
			return
		case <-f.done:
			return
		}
	}
}

// handoff is a listener for connections that were accepted elsewhere.
type handoff struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newHandoff() *handoff { return &handoff{conns: make(chan net.Conn), done: make(chan struct{})} }

// give hands a connection over, or closes it when nobody takes any more.
func (h *handoff) give(c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.done:
		_ = c.Close() // nobody was told of it
	}
}

func (h *handoff) drop() { h.once.Do(func() { close(h.done) }) }

// Accept implements net.Listener.
func (h *handoff) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handoff) Close() error {
	h.drop()
	return nil
}

// Addr implements net.Listener.
func (h *handoff) Addr() net.Addr { return handoffAddr{} }

type handoffAddr struct{}

func (handoffAddr) Network() string { return "evenkeeltest" }
func (handoffAddr) String() string  { return "handoff" }

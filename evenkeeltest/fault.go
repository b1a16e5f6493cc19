// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeeltest

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
)

// Fault is what a server does wrong. The zero value is a server that does nothing wrong; the fields are independent of
// each other and can be set together.
//
// What a relay can do to a connection that is open (stalls, delays, cuts) is not among them: see Config.Relays.
type Fault struct {
	// Reset resets each new connection as soon as it is accepted.
	Reset bool
	// Silent accepts each new connection and says nothing on it, as a process does that is stopped: no TLS handshake. Such
	// a connection stays silent after the fault was cleared. Connections that are open already go on; to freeze those,
	// stall a relay.
	Silent bool
	// SilentAfterTLS is the same, but after the TLS handshake. With Plaintext it is Silent.
	SilentAfterTLS bool
	// Certificate is what is wrong with the certificate that new connections are shown. It needs TLS.
	Certificate CertificateFault
	// GoAwayAfter ends each new connection of a gRPC client with GOAWAY when it has been open for about so long (10 % more
	// or less, at random); running calls go on. Clients that come back at once get one GOAWAY after the other. It needs
	// TLS.
	GoAwayAfter time.Duration

	// Count, Reserve and Token spoil the answers to probes, reservations and requests for tokens. Setting one closes the
	// HTTP connections that are open, so that it holds for every request from then on; with Plaintext it holds for
	// connections made after it.
	Count, Reserve, Token HTTPFault
	// StockHTTP answers probes and reservations as a stock server does: with the count and nothing else. It holds from
	// when Count and Reserve do.
	StockHTTP bool
	// Bare401 answers the gRPC calls of connections made after it with 401 and no gRPC status, whatever token they carry,
	// as a stock server does with calls that have none.
	Bare401 bool

	// Contract spoils what the server says of its contract.
	Contract ContractFault

	// RefuseConnect ends each new Connect stream at once with this code, while probes are answered: what attracts clients
	// and cannot serve them. codes.OK, the zero value, refuses nobody.
	RefuseConnect codes.Code
	// EndStreams ends each Connect stream with OK, those that are open and those that begin.
	EndStreams bool
	// NoKeepAlives sends no keep-alives on Connect streams, and does not tell a client that it was evicted.
	NoKeepAlives bool
	// WrongID sends the keep-alives with the id of another connection.
	WrongID bool
	// ForgetClients takes every client out of the table of connected clients, and tells nobody, as a stock server does to
	// a client that it has not heard of for 5 s: the stream stays open and keep-alives come, answers to them are
	// acknowledged, and the client neither counts nor is listed. A client once forgotten stays so until it connects
	// anew, also when the fault is cleared.
	ForgetClients bool
	// HangAnswers lets the client's answers to keep-alives wait until the fault is cleared; FailAnswers fails them with a
	// code.
	HangAnswers bool
	FailAnswers codes.Code
}

// spoilsHTTP says that answers to HTTP requests are not those of the real server.
func (f Fault) spoilsHTTP() bool {
	return f.StockHTTP || f.Count != HTTPFault{} || f.Reserve != HTTPFault{} || f.Token != HTTPFault{} || f.Bare401
}

// HTTPFault is what is wrong with the answer to an HTTP request. The zero value is the right answer. Where several fields
// are set, the request first waits for Hang and Delay.
type HTTPFault struct {
	// Hang gives no answer until the fault is cleared.
	Hang bool
	// Delay is how long the answer takes.
	Delay time.Duration
	// Abort breaks the request off in place of an answer.
	Abort bool
	// Status, ContentType and Body are the answer, where one of them is set; Status 0 means 200.
	Status            int
	ContentType, Body string
	// Location makes the answer a redirect to there, with status 307 unless Status says otherwise.
	Location string
	// HeaderBytes adds a header of that size to the answer, in pieces.
	HeaderBytes int
	// Endless sends a body without end after Body, as fast as the client takes it.
	Endless bool
	// Drip sends Body byte by byte, with this time between two.
	Drip time.Duration
}

// ContractFault is what is wrong with what a server says of its contract. The zero value is the right answer.
type ContractFault struct {
	// Hang lets CheckCompatibility wait until the fault is cleared.
	Hang bool
	// Incompatible, where it is not empty, has CheckCompatibility answer that the client is not compatible, for this
	// reason.
	Incompatible string
	// Older is a server of before CheckCompatibility, which answers UNIMPLEMENTED; GetDescriptorSet answers with Schema,
	// or UNIMPLEMENTED as well where that is empty.
	Older  bool
	Schema string
}

// IncompatibleContract is a server that says that the client needs a method which is not there.
func IncompatibleContract() ContractFault {
	return ContractFault{Incompatible: "Cratis.Chronicle.Contracts.Clients.ConnectionService/Connect: the method is missing"}
}

// OlderContract is a server of before CheckCompatibility whose contract has all that a session needs, but not all that
// there is today.
func OlderContract() ContractFault { return ContractFault{Older: true, Schema: olderSchema} }

// OldestContract is a server whose contract is so old that it lacks what a session needs: keep-alives cannot be answered.
func OldestContract() ContractFault {
	return ContractFault{Older: true, Schema: strings.Replace(olderSchema, "rpc ConnectionKeepAlive", "rpc Ping", 1)}
}

// olderSchema is a text as stock servers answer with, of a contract that is older than ours.
const olderSchema = `syntax = "proto3";
package Cratis.Chronicle.Contracts.Clients;
import "google/protobuf/empty.proto";

message ConnectRequest {
   string ConnectionId = 1;
   string ClientVersion = 2;
   bool IsRunningWithDebugger = 3;
}
message ConnectionKeepAlive {
   string ConnectionId = 1;
}
service ConnectionService {
   rpc Connect (ConnectRequest) returns (stream .Cratis.Chronicle.Contracts.Clients.ConnectionKeepAlive);
   rpc ConnectionKeepAlive (.Cratis.Chronicle.Contracts.Clients.ConnectionKeepAlive) returns (.google.protobuf.Empty);
}
`

// HTMLPage is an answer of 200 with a page of HTML, as a server gives that is too old to know the path.
func HTMLPage() HTTPFault {
	const page = "<!doctype html>\n<html><head><title>Workbench</title></head><body><div id=\"app\"></div></body></html>\n"
	return HTTPFault{ContentType: "text/html; charset=utf-8", Body: page}
}

// CountOf is an answer that claims n connections, whatever is true.
func CountOf(n int) HTTPFault {
	return HTTPFault{ContentType: "application/json; charset=utf-8", Body: strconv.Itoa(n)}
}

// TokenDown is a token endpoint that cannot do its work.
func TokenDown() HTTPFault {
	return HTTPFault{Status: http.StatusServiceUnavailable, Body: "down for a test"}
}

// TokenRefused is the answer to a client whose credentials are wrong.
func TokenRefused() HTTPFault {
	return HTTPFault{
		Status: http.StatusUnauthorized, ContentType: "application/json; charset=utf-8",
		Body: `{"error":"invalid_client","error_description":"The specified client credentials are invalid."}`,
	}
}

// TokenOf is an answer with that token, whether the server knows it or not, and that expires_in, which is put in as it is
// and left out when empty.
func TokenOf(token, expiresIn string) HTTPFault {
	body := `{"access_token":` + strconv.Quote(token) + `,"token_type":"Bearer"`
	if expiresIn != "" {
		body += `,"expires_in":` + expiresIn
	}
	return HTTPFault{ContentType: "application/json; charset=utf-8", Body: body + "}"}
}

// replaces says that the fault brings an answer of its own.
func (h HTTPFault) replaces() bool {
	h.Hang, h.Delay, h.Abort = false, 0, false
	return h != HTTPFault{}
}

// SetFault replaces what the server does wrong. It takes effect at once, may be called while the server runs or is down,
// and holds over Kill and Restart.
func (s *Server) SetFault(fault Fault) {
	s.faults.set(fault)
	if !fault.spoilsHTTP() {
		return
	}
	s.mu.Lock()
	run := s.run
	s.mu.Unlock()
	if run != nil {
		run.listener.cutHTTP()
	}
}

// ClearFaults makes the server do everything right again.
func (s *Server) ClearFaults() { s.SetFault(Fault{}) }

// Fault returns what the server does wrong now, for changing a part of it.
func (s *Server) Fault() Fault {
	fault, _ := s.faults.load()
	return fault
}

// faults is what a server does wrong now, over all its lives. newFaults makes one.
type faults struct {
	mu      sync.Mutex
	now     Fault         // guarded by mu
	changed chan struct{} // guarded by mu; closed and replaced with each change
}

func newFaults() *faults { return &faults{changed: make(chan struct{})} }

func (f *faults) set(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = fault
	close(f.changed)
	f.changed = make(chan struct{})
}

// load returns the fault, and a channel that is closed when it is not that any more.
func (f *faults) load() (Fault, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now, f.changed
}

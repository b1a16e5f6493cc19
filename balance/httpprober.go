// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/certerr"
	"github.com/evenkeel-go/evenkeel/internal/dial"
	"github.com/evenkeel-go/evenkeel/internal/extension"
)

const (
	countPath   = "/connections/count"
	reservePath = "/connections/reserve"
	userAgent   = "evenkeel"

	// callTimeout bounds a call whose context has no deadline.
	callTimeout = 30 * time.Second
	// maxHeaderBytes bounds the header of an answer, and receiveBuffer what a server can make us hold of its body. The
	// latter is the least that net/http accepts for a connection.
	maxHeaderBytes = 16 << 10
	receiveBuffer  = 64 << 10
	// silenceAfter is how long a connection must have left a request without an answer before it is given up. Anything
	// less may be a caller in a hurry.
	silenceAfter = time.Second
)

// ProberConfig configures NewProber. The zero value probes over HTTPS with the system's roots.
type ProberConfig struct {
	// TLS are the settings of the connections; they should be those of the connections that the probes are for. Nil
	// means the defaults. The server is checked against ServerName, or the VerifyName of each endpoint where that is
	// empty. TLS 1.2 is the oldest version allowed; NextProtos is set by the prober. The config is copied.
	TLS *tls.Config
	// Plaintext probes without TLS, over HTTP/2 with prior knowledge, which is all that a stock server without TLS
	// speaks. It excludes TLS.
	Plaintext bool
	// Resolver looks up the hosts of endpoints without addresses. Nil means discover.SystemResolver.
	Resolver *net.Resolver
	// NoProxy connects without a proxy, whatever HTTPS_PROXY and NO_PROXY said when the prober was made. Those are the
	// rule otherwise, as for the connections that the probes are for. Nobody here knows the address of a server behind a
	// proxy: the Addr of its Count is the zero value.
	NoProxy bool
}

// Validate reports all faults of the configuration, joined.
func (c ProberConfig) Validate() error {
	var errs []error
	if c.Plaintext && c.TLS != nil {
		errs = append(errs, errors.New("balance: a plaintext prober has no TLS settings"))
	}
	if c.TLS != nil {
		for _, version := range []uint16{c.TLS.MinVersion, c.TLS.MaxVersion} {
			if version != 0 && version < tls.VersionTLS12 {
				errs = append(errs, fmt.Errorf("balance: %s is not allowed, TLS 1.2 is the oldest version", tls.VersionName(version)))
			}
		}
	}
	return errors.Join(errs...)
}

// HTTPProber is the Prober that asks over HTTP/2 or HTTP/1.1, whichever the server prefers.
//
// It keeps its connections for the next round, a minute at most, so that the reservation and the next probe of a server
// cost no new handshake. It has 64 at most to one server, each with as many requests as the server takes; a call that finds
// no room waits for its turn, 10 s at most. The strategies of this package do not count that as the server's time. A call
// ends with its context, and after 30 s at the latest. Its errors are of type *ProbeError.
// It is safe for concurrent use and meant to be shared by the clients of a process.
type HTTPProber struct {
	tls       *tls.Config // nil over plaintext
	dialer    dial.Dialer
	dial      func(context.Context, discover.Endpoint) (net.Conn, error) // dialer.Dial, or what a test puts there
	transport *http.Transport
	pool      *pool
	calls     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	next   uint64
	cancel map[uint64]context.CancelCauseFunc // of the calls under way
}

var (
	_ Prober    = (*HTTPProber)(nil)
	_ Releaser  = (*HTTPProber)(nil)
	_ io.Closer = (*HTTPProber)(nil)
)

// NewProber returns a prober. It connects to nobody yet. The caller must close it.
func NewProber(config ProberConfig) (*HTTPProber, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	p := &HTTPProber{
		dialer:    dial.Dialer{Resolver: config.Resolver},
		transport: newTransport(),
		cancel:    make(map[uint64]context.CancelCauseFunc),
	}
	if p.dialer.Resolver == nil {
		p.dialer.Resolver = discover.SystemResolver()
	}
	if !config.NoProxy {
		p.dialer.Proxy = dial.ProxyFromEnvironment(config.TLS)
	}
	p.dial = p.dialer.Dial
	if !config.Plaintext {
		p.tls = &tls.Config{}
		if config.TLS != nil {
			p.tls = config.TLS.Clone()
		}
		p.tls.MinVersion = max(p.tls.MinVersion, tls.VersionTLS12)
		p.tls.NextProtos = []string{"h2", "http/1.1"}
	}
	p.transport.Protocols.SetUnencryptedHTTP2(config.Plaintext)
	p.transport.Protocols.SetHTTP2(!config.Plaintext)
	p.transport.Protocols.SetHTTP1(!config.Plaintext)
	p.pool = newPool(p.connect)
	return p, nil
}

// Count implements Prober.
func (p *HTTPProber) Count(ctx context.Context, endpoint discover.Endpoint) (Count, error) {
	reply, err := p.exchange(ctx, question{op: opCount, endpoint: endpoint})
	count := Count{Addr: reply.addr, RTT: reply.rtt, Proto: reply.proto, TLS: reply.tls}
	if err == nil {
		count.Load = loadIn(reply.header) // a server that drains gives no count, and says why
	}
	if err == nil && reply.status != http.StatusOK {
		err = &ProbeError{Endpoint: endpoint, Op: opCount, Addr: reply.addr, Status: reply.status}
	}
	if err == nil {
		if count.Connections, err = parseCount(reply.body); err != nil {
			err = &ProbeError{Endpoint: endpoint, Op: opCount, Addr: reply.addr, Status: reply.status, Err: err}
		}
	}
	return count, err
}

// loadIn returns what a server said besides its count; nil when it told no rate that can be meant, and nothing else.
func loadIn(header http.Header) *Load {
	rate, said := extension.Rate(header)
	load := Load{ArrivalRate: rate, Capacity: extension.CapacityOf(header), Draining: extension.IsDraining(header)}
	if !said {
		if load == (Load{}) {
			return nil
		}
		load.ArrivalRate = math.NaN() // not told
	}
	return &load
}

// Reserve implements Prober. Any status of success will do, and any answer: a stock server's has nothing in it.
func (p *HTTPProber) Reserve(ctx context.Context, endpoint discover.Endpoint, request ReserveRequest) (Reservation, error) {
	reply, err := p.exchange(ctx, question{op: opReserve, endpoint: endpoint, request: request})
	if err == nil && reply.status/100 != 2 {
		err = &ProbeError{Endpoint: endpoint, Op: opReserve, Addr: reply.addr, Status: reply.status}
	}
	if err != nil {
		return Reservation{}, err
	}
	if request.Identify {
		if answer, ok := extension.ParseAnswer(reply.body); ok {
			return Reservation{Made: answer.Granted, Refused: !answer.Granted, ID: answer.ID, Count: answer.Count}, nil
		}
	}
	return Reservation{Made: true}, nil
}

// Release implements Releaser. An id that no server can have made is refused without asking.
func (p *HTTPProber) Release(ctx context.Context, endpoint discover.Endpoint, id string) error {
	if !extension.ValidID(id) {
		return &ProbeError{Endpoint: endpoint, Op: opRelease, Err: errNoID}
	}
	reply, err := p.exchange(ctx, question{op: opRelease, endpoint: endpoint, id: id})
	if err == nil && reply.status/100 != 2 && reply.status != http.StatusNotFound {
		err = &ProbeError{Endpoint: endpoint, Op: opRelease, Addr: reply.addr, Status: reply.status}
	}
	return err
}

// Close ends all calls and connections and waits for them. Calls after it fail with ErrProberClosed. It can be called
// more than once, and concurrently.
func (p *HTTPProber) Close() error {
	p.mu.Lock()
	p.closed = true
	for _, cancel := range p.cancel {
		cancel(ErrProberClosed)
	}
	p.mu.Unlock()
	p.pool.close()
	p.calls.Wait()
	return nil
}

// begin registers a call, so that Close can end it and wait for it. The caller must call end.
func (p *HTTPProber) begin(ctx context.Context) (_ context.Context, end func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, ErrProberClosed
	}
	ctx, release := context.WithTimeout(ctx, callTimeout)
	ctx, cancel := context.WithCancelCause(ctx)
	id := p.next
	p.next++
	p.cancel[id] = cancel
	p.calls.Add(1)
	return ctx, func() {
		cancel(nil)
		release()
		p.mu.Lock()
		delete(p.cancel, id)
		p.mu.Unlock()
		p.calls.Done()
	}, nil
}

// newTransport returns the transport that turns connections into http.ClientConns. It dials nobody: the connection is
// made before and handed over in the context. The protocols are still to be set.
func newTransport() *http.Transport {
	handed := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return ctx.Value(handedKey{}).(net.Conn), nil
	}
	return &http.Transport{
		DialContext:            handed,
		DialTLSContext:         handed,
		Protocols:              new(http.Protocols),
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaderBytes,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerConnection: receiveBuffer,
			MaxReceiveBufferPerStream:     receiveBuffer,
		},
	}
}

type handedKey struct{}

// connect makes a connection to one of the addresses of the endpoint.
func (p *HTTPProber) connect(ctx context.Context, endpoint discover.Endpoint) (*pooledConn, error) {
	conn, err := p.dial(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	pooled := &pooledConn{http2: true}
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok && !p.dialer.Proxied(endpoint) {
		addr := tcp.AddrPort()
		pooled.addr = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
	}
	scheme := "http"
	if p.tls != nil {
		scheme = "https"
		pooled.hearing = certerr.HearOut(conn)
		config, asked := certerr.Watch(p.tlsFor(endpoint))
		secured := tls.Client(pooled.hearing, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = conn.Close() // the handshake's error is the one that matters
			return nil, handshakeError(asked.Explain(err, endpoint.VerifyName()))
		}
		pooled.http2 = secured.ConnectionState().NegotiatedProtocol == "h2"
		conn, pooled.secured = secured, secured
	}
	handed := context.WithValue(ctx, handedKey{}, conn)
	pooled.ClientConn, err = p.transport.NewClientConn(handed, scheme, endpoint.Authority())
	if err != nil {
		_ = conn.Close()
		return nil, exchangeError(ctx, err)
	}
	return pooled, nil
}

func (p *HTTPProber) tlsFor(endpoint discover.Endpoint) *tls.Config {
	config := p.tls.Clone()
	if config.ServerName == "" {
		config.ServerName = endpoint.VerifyName()
	}
	return config
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	dnsPort = 53
	// udpPayload is the size of reply that the query says it can take over UDP: the largest that is never fragmented.
	udpPayload = 1232
	// maxMessage is the size of the largest DNS message. Replies over UDP are read whole, whatever udpPayload says.
	maxMessage = 65535
	// resendAfter is how long an answer over UDP is waited for before the query is sent again; each further wait is
	// twice as long. It is short because many clients that lost their server together ask together, and datagrams are
	// lost then, while the addresses of targets are waited for 2 s in all.
	resendAfter = 500 * time.Millisecond
	// maxServerAddrs bounds how many addresses of a name server given by name are asked.
	maxServerAddrs = 4
)

// outcome is what asking name servers one question led to.
type outcome struct {
	server  string   // whose reply or silence this is
	asked   []string // all that were asked, each once
	msg     []byte   // the reply; nil when none belongs to the query
	garbage bool     // messages came that were no reply to the query
	err     error    // why there is no reply
}

// answers says whether the outcome answers the question, if only with "no such name".
func (o outcome) answers() bool {
	if o.msg == nil || o.err != nil {
		return false
	}
	r, err := parseReply(o.msg, 0)
	return err == nil && !r.referral && (r.code == codeNoError || r.code == codeNXDomain)
}

// asker puts questions to one explicit name server.
//
// It speaks DNS itself: net.Resolver asks as often as resolv.conf has servers and attempts, wherever its dial hook
// leads, and looks into the hosts file before it asks for addresses. Replies are read by the same code on both ways.
type asker struct {
	server nameServer
	system *net.Resolver // for a server given by name
	resend time.Duration
}

// addresses returns where the name server listens. For a server given by name the system is asked.
func (a *asker) addresses(ctx context.Context) ([]netip.AddrPort, error) {
	if a.server.addr.IsValid() {
		return []netip.AddrPort{netip.AddrPortFrom(a.server.addr, a.server.port)}, nil
	}
	addrs, err := a.system.LookupNetIP(ctx, "ip", a.server.host)
	if err != nil {
		return nil, err
	}
	servers := make([]netip.AddrPort, 0, len(addrs))
	for _, addr := range addrs[:min(len(addrs), maxServerAddrs)] {
		servers = append(servers, netip.AddrPortFrom(addr.Unmap(), a.server.port))
	}
	return servers, nil
}

// left is what one knows who has left a lookup that others wait for. It may be called on nil, for the system's servers.
func (a *asker) left() outcome {
	if a == nil || !a.server.addr.IsValid() {
		return outcome{err: os.ErrDeadlineExceeded}
	}
	server := a.server.String()
	return outcome{server: server, asked: []string{server}, err: os.ErrDeadlineExceeded}
}

// ask asks the addresses of the name server one after the other until one answers. What is left of the time of ctx,
// which must have a deadline, is shared among them. The context of the caller is ctx or stands above it.
func (a *asker) ask(ctx context.Context, servers []netip.AddrPort, question dnsmessage.Question) outcome {
	var o outcome
	var asked []string
	for i, server := range servers {
		asked = append(asked, server.String())
		o = a.askWithin(ctx, server, question, len(servers)-i)
		if o.answers() || ctx.Err() != nil {
			break
		}
	}
	o.asked = asked
	return o
}

func (a *asker) askWithin(ctx context.Context, server netip.AddrPort, question dnsmessage.Question, share int) outcome {
	deadline, _ := ctx.Deadline()
	ctx, cancel := context.WithTimeout(ctx, time.Until(deadline)/time.Duration(share))
	defer cancel()
	o := a.exchange(ctx, server, question)
	o.server = server.String()
	return o
}

// exchange asks over UDP, and over TCP when the reply was truncated.
func (a *asker) exchange(ctx context.Context, server netip.AddrPort, question dnsmessage.Question) outcome {
	q, err := newQuery(question)
	if err != nil {
		return outcome{err: err}
	}
	o := q.overUDP(ctx, server.String(), a.resend)
	if o.msg != nil && o.err == nil && truncated(o.msg) {
		o = q.overTCP(ctx, server.String())
		if o.err != nil {
			o.err = &truncatedError{plain(o.err)}
		}
	}
	return o
}

// truncatedError says that the whole of an answer could not be had.
type truncatedError struct{ err error }

func (e *truncatedError) Error() string {
	return "the answer was truncated over UDP and asking over TCP failed: " + e.err.Error()
}

func (e *truncatedError) Unwrap() error { return e.err }

// query is one question with its id, packed.
type query struct {
	id       uint16
	question dnsmessage.Question
	packed   []byte
}

// newQuery packs a question with a random id; the kernel picks a random port for each query (RFC 5452).
func newQuery(question dnsmessage.Question) (query, error) {
	var random [2]byte
	_, _ = rand.Read(random[:]) // never fails
	q := query{id: binary.BigEndian.Uint16(random[:]), question: question}
	var edns dnsmessage.ResourceHeader
	if err := edns.SetEDNS0(udpPayload, dnsmessage.RCodeSuccess, false); err != nil {
		return query{}, err
	}
	msg := dnsmessage.Message{
		Header:      dnsmessage.Header{ID: q.id, RecursionDesired: true},
		Questions:   []dnsmessage.Question{question},
		Additionals: []dnsmessage.Resource{{Header: edns, Body: &dnsmessage.OPTResource{}}},
	}
	packed, err := msg.Pack()
	q.packed = packed
	return q, err
}

// overUDP sends the query, and again when an answer has not come within resend, then twice resend and so on, until ctx
// ends. It is the same query on the same socket, so that a late answer to the first one is taken as well. Messages that
// do not belong to the query may be forged: they are passed over.
func (q query) overUDP(ctx context.Context, server string, resend time.Duration) (o outcome) {
	conn, deadline, err := dialBound(ctx, "udp", server)
	if err != nil {
		return outcome{err: err}
	}
	defer func() { _ = conn.Close() }()
	buf := make([]byte, maxMessage)
	for {
		next := time.Now().Add(resend)
		resend *= 2
		if err := send(conn, q.packed, next); err != nil {
			o.err = err
			return o
		}
		o.receive(conn, q, buf)
		if !errors.Is(o.err, os.ErrDeadlineExceeded) || ctx.Err() != nil || next.After(deadline) {
			return o
		}
	}
}

// receive reads until a message belongs to the query or reading fails.
func (o *outcome) receive(conn net.Conn, q query, buf []byte) {
	for {
		n, err := conn.Read(buf)
		if err != nil {
			o.err = err
			return
		}
		switch belongs(buf[:n], q.id, q.question) {
		case ours:
			o.msg, o.err = slices.Clone(buf[:n]), nil
			return
		case broken:
			o.err = errGarbage
			return
		case foreign:
			o.garbage = true
		}
	}
}

// overTCP sends the query over a connection of its own and reads one message.
func (q query) overTCP(ctx context.Context, server string) outcome {
	conn, deadline, err := dialBound(ctx, "tcp", server)
	if err != nil {
		return outcome{err: err}
	}
	defer func() { _ = conn.Close() }()
	framed := binary.BigEndian.AppendUint16(nil, uint16(len(q.packed)))
	if err := send(conn, append(framed, q.packed...), deadline); err != nil {
		return outcome{err: err}
	}
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return outcome{err: err}
	}
	msg := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(conn, msg); err != nil {
		return outcome{err: err}
	}
	// A connection carries the replies to its own queries only, so there is nothing to wait for behind a wrong one.
	if belongs(msg, q.id, q.question) != ours {
		return outcome{err: errGarbage}
	}
	return outcome{msg: msg}
}

// dialBound connects for as long as ctx lasts; it has a deadline.
func dialBound(ctx context.Context, network, server string) (net.Conn, time.Time, error) {
	deadline, _ := ctx.Deadline()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, server)
	if err != nil {
		return nil, deadline, err
	}
	return bind(ctx, conn, deadline), deadline, nil
}

func send(conn net.Conn, msg []byte, deadline time.Time) error {
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	_, err := conn.Write(msg)
	return err
}

func truncated(msg []byte) bool {
	var p dnsmessage.Parser
	header, err := p.Start(msg)
	return err == nil && header.Truncated
}

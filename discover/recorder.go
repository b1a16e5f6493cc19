// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// recorder is a dial hook for net.Resolver that keeps what the name servers of the system really said: LookupSRV itself
// tells neither NXDOMAIN from NODATA nor who owns a record, and gives up an answer of which one record is malformed.
//
// It is used for one lookup. For one question there is one exchange at a time; those for addresses of both families go
// side by side.
type recorder struct {
	dial dialFunc

	mu        sync.Mutex
	exchanges []*exchangeRecord // guarded by mu, the records too
}

// exchangeRecord is one connection that net.Resolver asked for: one query, and what came of it.
type exchangeRecord struct {
	outcome

	udp      bool
	question dnsmessage.Question // the zero value until the query is sent
}

// dialServer implements net.Resolver.Dial.
func (r *recorder) dialServer(ctx context.Context, network, address string) (net.Conn, error) {
	if err := ended(ctx); err != nil {
		return nil, err // asking is over: no name server was asked by this
	}
	conn, err := r.dial(ctx, network, address)
	if err != nil && network == "udp" && ended(ctx) != nil {
		return nil, err // the same: connecting over UDP sends nothing
	}
	record := &exchangeRecord{outcome: outcome{server: address, err: err}}
	if err == nil {
		record.server = conn.RemoteAddr().String()
	} else if op, ok := errors.AsType[*net.OpError](err); ok && op.Addr != nil {
		record.server = op.Addr.String()
	}
	r.mu.Lock()
	r.exchanges = append(r.exchanges, record)
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if udp, ok := conn.(*boundUDP); ok {
		record.udp = true
		return &recordedUDP{boundUDP: udp, recorder: r, record: record}, nil
	}
	return &recordedTCP{Conn: conn, recorder: r, record: record}, nil
}

// outcome returns what the lookup led to: the last reply that answers the question, else what came last.
func (r *recorder) outcome(err error) outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	return lead(r.exchanges, err)
}

// outcomeOf is outcome for one of several questions. Exchanges that got nowhere may have been for any of them.
func (r *recorder) outcomeOf(question dnsmessage.Question, err error) outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	var its []*exchangeRecord
	for _, record := range r.exchanges {
		if record.question == question || record.question == (dnsmessage.Question{}) {
			its = append(its, record)
		}
	}
	return lead(its, err)
}

// names returns the names that were asked for, in order, each once and with its final dot.
func (r *recorder) names() []dnsmessage.Name {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []dnsmessage.Name
	for _, record := range r.exchanges {
		if name := record.question.Name; name.Length > 0 && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// lead returns what exchanges led to.
func lead(exchanges []*exchangeRecord, err error) outcome {
	last := outcome{err: err}
	var asked []string
	answered, cut := false, false
	for _, record := range exchanges {
		if !slices.Contains(asked, record.server) {
			asked = append(asked, record.server)
		}
		o := record.outcome
		if o.err != nil && cut && !record.udp {
			o.err = &truncatedError{plain(o.err)}
		}
		cut = record.udp && o.msg != nil && truncated(o.msg)
		if cut {
			o.msg, o.err = nil, err // a part of the answer, which the one over TCP replaces
		}
		if whole := o.answers(); whole || !answered {
			last, answered = o, whole
		}
	}
	last.asked = asked
	return last
}

// noteQuery takes down what is asked.
func (r *recorder) noteQuery(record *exchangeRecord, sent []byte) {
	var p dnsmessage.Parser
	if _, err := p.Start(sent); err != nil {
		return
	}
	if question, err := p.Question(); err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		record.question = question
	}
}

// note takes down a message that came, when it belongs to the query.
func (r *recorder) note(record *exchangeRecord, sent, received []byte) {
	var p dnsmessage.Parser
	header, err := p.Start(sent)
	if err != nil {
		return
	}
	question, err := p.Question()
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch belongs(received, header.ID, question) {
	case ours:
		record.msg, record.err = slices.Clone(received), nil
	case broken, foreign:
		record.garbage = true
	}
}

// noteError takes down that reading ended. A reply that came before it stays.
func (r *recorder) noteError(record *exchangeRecord, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if record.msg == nil {
		record.err = err
	}
}

// recordedUDP is what net.Resolver reads datagrams from.
type recordedUDP struct {
	*boundUDP

	recorder *recorder
	record   *exchangeRecord
	sent     []byte
	buf      []byte
}

// Write keeps the query.
func (c *recordedUDP) Write(p []byte) (int, error) {
	c.sent = slices.Clone(p)
	c.recorder.noteQuery(c.record, c.sent)
	n, err := c.boundUDP.Write(p)
	if err != nil {
		c.recorder.noteError(c.record, err)
	}
	return n, err
}

// Read keeps the whole datagram: net.Resolver has room for 1232 bytes only.
func (c *recordedUDP) Read(p []byte) (int, error) {
	if c.buf == nil {
		c.buf = make([]byte, maxMessage)
	}
	n, err := c.boundUDP.Read(c.buf)
	if err != nil {
		c.recorder.noteError(c.record, err)
		return 0, err
	}
	c.recorder.note(c.record, c.sent, c.buf[:n])
	return copy(p, c.buf[:n]), nil
}

// recordedTCP is what net.Resolver reads a framed message from.
type recordedTCP struct {
	net.Conn

	recorder *recorder
	record   *exchangeRecord
	sent     []byte
	stream   []byte
	complete bool
}

// Write keeps the query.
func (c *recordedTCP) Write(p []byte) (int, error) {
	c.sent = append(c.sent, p...)
	if query, whole := unframe(c.sent); whole {
		c.recorder.noteQuery(c.record, query)
	}
	n, err := c.Conn.Write(p)
	if err != nil {
		c.recorder.noteError(c.record, err)
	}
	return n, err
}

// Read keeps the stream up to the end of the first message.
func (c *recordedTCP) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.complete {
		c.stream = append(c.stream, p[:n]...)
		if msg, whole := unframe(c.stream); whole {
			c.complete = true
			query, _ := unframe(c.sent)
			c.recorder.note(c.record, query, msg)
		}
	}
	if err != nil {
		c.recorder.noteError(c.record, err)
	}
	return n, err
}

// unframe returns the first message of a stream, and whether it is there as a whole (RFC 1035 section 4.2.2).
func unframe(stream []byte) ([]byte, bool) {
	if len(stream) < 2 {
		return nil, false
	}
	length := int(binary.BigEndian.Uint16(stream))
	if len(stream) < 2+length {
		return nil, false
	}
	return stream[2 : 2+length], true
}

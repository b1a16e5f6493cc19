// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/credential"
	"github.com/evenkeel-go/evenkeel/internal/certerr"
	"github.com/evenkeel-go/evenkeel/internal/dial"
)

// trouble is what went wrong at a server, how often and when. It is an object in the summary of connect --json.
type trouble struct {
	Endpoint string    `json:"endpoint"`
	Cause    string    `json:"cause"`
	Count    int       `json:"count"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
}

const (
	// maxTroubles bounds how many are told apart: servers have a part in what the causes are.
	maxTroubles = 256
	// shownTroubles is how many have a place in a table.
	shownTroubles = 10
	longestCause  = 80
)

// troubles are what went wrong at the servers of a fleet, by server and cause.
type troubles struct {
	all     []*trouble
	refused error // the first refusal of what a client showed
}

// note takes one event in.
func (t *troubles) note(e fleetEvent) {
	if e.Kind != evenkeel.EventLost && e.Kind != evenkeel.EventCandidateFailed {
		return
	}
	if t.refused == nil && errors.Is(e.Err, evenkeel.ErrUnauthenticated) {
		t.refused = e.Err
	}
	endpoint, cause := e.Endpoint.Addr(), causeOf(e.Event)
	at := slices.IndexFunc(t.all, func(known *trouble) bool { return known.Endpoint == endpoint && known.Cause == cause })
	if at < 0 && len(t.all) == maxTroubles {
		return
	}
	if at < 0 {
		at = len(t.all)
		t.all = append(t.all, &trouble{Endpoint: endpoint, Cause: cause, First: e.Time.UTC()})
	}
	t.all[at].Count++
	t.all[at].Last = e.Time.UTC()
}

// behind is the failure that led to the one given: a server that was shown wrong credentials too often has no ear for any.
func (t *troubles) behind(cause error) error {
	token, ok := errors.AsType[*credential.TokenError](cause)
	if ok && token.Status == http.StatusTooManyRequests && t.refused != nil {
		return t.refused
	}
	return cause
}

// list returns them, the most frequent ones first.
func (t *troubles) list() []trouble {
	sorted := make([]trouble, len(t.all))
	for i, one := range t.all {
		sorted[i] = *one
	}
	slices.SortStableFunc(sorted, func(a, b trouble) int {
		return cmp.Or(-cmp.Compare(a.Count, b.Count), a.First.Compare(b.First), compareServers(a.Endpoint, b.Endpoint))
	})
	return sorted
}

// causeOf names the cause of an event without what differs from one time to the next, such as ports.
func causeOf(e evenkeel.Event) string {
	before := "session lost"
	if failed, ok := errors.AsType[*evenkeel.EndpointError](e.Err); ok {
		before = failed.Step.String()
	}
	if e.Err == nil {
		return before
	}
	return printable(before+": "+causeText(e.Err), longestCause)
}

// causeText is a cause in a few words.
func causeText(err error) string {
	for _, known := range []error{
		evenkeel.ErrSilent, evenkeel.ErrUnanswered, evenkeel.ErrPaused, evenkeel.ErrWrongID, evenkeel.ErrDraining, evenkeel.ErrShed,
		evenkeel.ErrGoAway, evenkeel.ErrReselected, evenkeel.ErrRebalanced, evenkeel.ErrUnauthenticated, evenkeel.ErrIncompatible,
		evenkeel.ErrClientCertificate, evenkeel.ErrTransportLost, evenkeel.ErrStreamEnded,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if token, ok := errors.AsType[*credential.TokenError](err); ok {
		return tokenText(token)
	}
	if proxy, ok := errors.AsType[*dial.ProxyError](err); ok && proxy.Err != nil {
		return "proxy " + proxy.Proxy + ": " + causeText(proxy.Err)
	}
	if socket, ok := errors.AsType[*os.SyscallError](err); ok {
		return socket.Err.Error()
	}
	switch {
	case certerr.FaultOf(err) != certerr.None:
		return "the server's certificate is refused"
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed"
	}
	if failed, ok := errors.AsType[*evenkeel.EndpointError](err); ok {
		err = failed.Err
	}
	return sentence(err)
}

func tokenText(err *credential.TokenError) string {
	if err.Status == 0 {
		return err.Reason.String()
	}
	return strings.TrimSpace(fmt.Sprintf("%s: status %d %s", err.Reason, err.Status, http.StatusText(err.Status)))
}

// troubleTable lists what went wrong most often.
func troubleTable(p palette, all []trouble, width int) []string {
	if len(all) == 0 {
		return nil
	}
	list := &sheet{columns: []column{{"TIMES", true}, {"FIRST", false}, {"LAST", false}, {"ENDPOINT", false}, {"WHAT WENT WRONG", false}}}
	for _, one := range all[:min(len(all), shownTroubles)] {
		list.add(plain(number(one.Count), one.First.Local().Format(time.TimeOnly), one.Last.Local().Format(time.TimeOnly), one.Endpoint, one.Cause)...)
	}
	lines := list.linesWithin(p, width)
	if more := len(all) - shownTroubles; more > 0 {
		lines = append(lines, "and "+plural(more, "more kind"))
	}
	return append(lines, "")
}

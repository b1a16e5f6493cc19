// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/evenkeel-go/evenkeel"
)

// connectView shows what a fleet does.
type connectView interface {
	event(e fleetEvent, since time.Duration, recovered bool)
	frame(now time.Time)
	summary(s connectSummary)
}

// newConnectView picks how to show it: to a program, on a terminal, or to whoever reads a log.
func newConnectView(h *holding) connectView {
	c := h.console
	p := newPalette(c.outScreen.colour)
	switch {
	case h.asJSON:
		return &connectJSON{console: c, adviser: h.adviser}
	case c.outScreen.live():
		return &connectLive{holding: h, palette: p, screen: live{w: c.out, size: c.outScreen.size}}
	default:
		return &connectLines{holding: h, palette: p}
	}
}

// connectEvent is an object of connect --json.
type connectEvent struct {
	Time       time.Time      `json:"time"`
	Client     int            `json:"client"`
	Event      string         `json:"event"`
	Endpoint   string         `json:"endpoint,omitempty"`
	Generation uint64         `json:"generation,omitempty"`
	Counts     map[string]int `json:"counts,omitempty"`
	Endpoints  []string       `json:"endpoints,omitempty"`
	Error      string         `json:"error,omitempty"`
	Wait       *float64       `json:"wait_ms,omitempty"`
	SinceLost  *float64       `json:"since_lost_ms,omitempty"`
	Dropped    int            `json:"dropped,omitempty"`
}

// connectSummary is the last object of connect --json.
type connectSummary struct {
	Summary     bool           `json:"summary"`
	Clients     int            `json:"clients"`
	Ready       int            `json:"ready"`
	Connections map[string]int `json:"connections"`
	Recovery    *durations     `json:"recovery_ms,omitempty"`
	Lost        int            `json:"lost"`
	Failed      int            `json:"failed_attempts"`
	Elapsed     float64        `json:"elapsed_ms"`
	Causes      []trouble      `json:"causes,omitempty"`
}

// connectJSON shows a fleet to a program.
type connectJSON struct {
	console *console
	adviser adviser
}

func (v *connectJSON) event(e fleetEvent, since time.Duration, recovered bool) {
	object := connectEvent{
		Time: e.Time.UTC(), Client: e.client, Event: e.Kind.String(), Generation: e.Generation,
		Counts: countsOf(e.Event), Dropped: e.Dropped,
	}
	if e.Endpoint.Host != "" {
		object.Endpoint = e.Endpoint.Addr()
	}
	for _, endpoint := range e.Endpoints {
		object.Endpoints = append(object.Endpoints, endpoint.Addr())
	}
	if e.Err != nil {
		object.Error = sentence(v.adviser.explain(e.Err))
	}
	if e.Kind == evenkeel.EventBackingOff {
		wait := milliseconds(e.Wait)
		object.Wait = &wait
	}
	if recovered {
		ms := milliseconds(since)
		object.SinceLost = &ms
	}
	v.console.object(object)
}

func (v *connectJSON) frame(time.Time) {}

func (v *connectJSON) summary(s connectSummary) { v.console.object(s) }

// countsOf are the answers that a selection saw.
func countsOf(e evenkeel.Event) map[string]int {
	counts := make(map[string]int, len(e.Observations))
	for _, o := range e.Observations {
		if o.Err == nil {
			counts[o.Endpoint.Addr()] = o.Count.Connections
		}
	}
	return counts
}

// connectLines shows a fleet in lines that stay: events of few clients and tables on standard output, the progress of
// many clients on standard error.
type connectLines struct {
	holding *holding
	palette palette

	changed  time.Time // when the tally changed last; zero when that has been shown
	shown    map[string]int
	progress string
	said     time.Time
}

func (v *connectLines) event(e fleetEvent, since time.Duration, recovered bool) {
	if v.holding.clients <= fewClients {
		for _, line := range v.holding.eventLines(v.palette, e, since, recovered, 0) {
			v.holding.console.printf("%s", line)
		}
	}
	if changes(e.Kind) {
		v.changed = time.Now()
	}
}

// changes says whether an event moves a client.
func changes(k evenkeel.EventKind) bool {
	return k == evenkeel.EventConnected || k == evenkeel.EventLost || k == evenkeel.EventBackingOff
}

func (v *connectLines) frame(now time.Time) {
	h := v.holding
	if line := progressLine(&h.tally, h.clients); h.clients > fewClients && line != v.progress && now.Sub(v.said) >= calmFrame {
		v.progress, v.said = line, now
		h.console.complain("%s", line)
	}
	if v.changed.IsZero() || now.Sub(v.changed) < settled {
		return
	}
	v.changed = time.Time{}
	if connections := h.tally.connections(); !maps.Equal(connections, v.shown) {
		v.shown = connections
		v.table(connections)
	}
}

func (v *connectLines) table(connections map[string]int) {
	lines := spreadTable(v.palette, connections)
	if v.holding.clients <= fewClients {
		lines = append([]string{""}, lines...) // events stand above
	}
	for _, line := range append(lines, "") {
		v.holding.console.printf("%s", line)
	}
}

func (v *connectLines) summary(s connectSummary) {
	if !maps.Equal(s.Connections, v.shown) {
		v.table(s.Connections)
	}
	if v.holding.clients > fewClients { // the others have had lines for each
		for _, line := range troubleTable(v.palette, s.Causes, v.holding.console.outScreen.wrapWidth()) {
			v.holding.console.printf("%s", line)
		}
	}
	v.holding.console.printf("%s", summaryLine(s))
}

// connectLive shows a fleet on a terminal: events of few clients roll by above a board.
type connectLive struct {
	holding *holding
	palette palette
	screen  live
}

func (v *connectLive) event(e fleetEvent, since time.Duration, recovered bool) {
	if v.holding.clients > fewClients {
		return
	}
	if lines := v.holding.eventLines(v.palette, e, since, recovered, v.width()); len(lines) > 0 {
		v.screen.replace(lines, v.board())
	}
}

func (v *connectLive) frame(time.Time) { v.screen.draw(v.board()) }

func (v *connectLive) width() int {
	width, _ := v.screen.size()
	return width
}

func (v *connectLive) board() []string {
	h, width := v.holding, v.width()
	lanes := h.tally.lanes(func(server string) string { return server })
	words := [groups]string{atHome: "where it started", moved: "moved"}
	lines := append([]string{""}, boardLines(v.palette, lanes, width)...)
	lines = append(append(lines, ""), legend(v.palette, lanes, words, width)...)
	lines = append(append(lines, ""), wrap("  "+progressLine(&h.tally, h.clients), width, 2)...)
	return append(lines, "  "+v.palette.faint.Render(h.clock()))
}

// clock says how long the sessions have been held, and how long they will be.
func (h *holding) clock() string {
	elapsed := time.Since(h.began)
	if h.length == 0 {
		return fmt.Sprintf("%v, until Ctrl-C", elapsed.Round(time.Second))
	}
	unit := time.Second
	if h.length < 10*time.Second {
		unit = frame // what there is to see of it
	}
	return fmt.Sprintf("%v of %v", min(elapsed.Round(unit), h.length), h.length)
}

func (v *connectLive) summary(s connectSummary) {
	v.screen.draw(nil)
	v.holding.console.printf("")
	lines := append(spreadTable(v.palette, s.Connections), "")
	if v.holding.clients > fewClients {
		lines = append(lines, troubleTable(v.palette, s.Causes, v.width())...)
	}
	for _, line := range append(lines, wrap(summaryLine(s), v.width(), 0)...) {
		v.holding.console.printf("%s", line)
	}
	v.screen.end()
}

// eventHang is where the text of an event begins.
const eventHang = len("15:04:05.000  client 1   ")

// eventLines are an event for a person, no wider than width where that is more than 0; none when it changes nothing that
// one wants to know.
func (h *holding) eventLines(p palette, e fleetEvent, since time.Duration, recovered bool, width int) []string {
	what, style := h.eventText(p, e, since, recovered)
	if what == "" {
		return nil
	}
	head := fmt.Sprintf("%s  client %-3d ", p.faint.Render(e.Time.Format("15:04:05.000")), e.client)
	indent, room := eventHang, width-eventHang
	pieces := wrap(what, room, 0)
	if width > 0 && room < narrowest {
		// Too narrow for two columns: the text stands below.
		indent = outdented
		pieces = append([]string{""}, wrap(what, width-indent, 0)...)
	}
	lines := []string{strings.TrimRight(head+style.Render(pieces[0]), " ")}
	for _, piece := range pieces[1:] {
		lines = append(lines, strings.Repeat(" ", indent)+style.Render(piece))
	}
	return lines
}

// eventText words an event; empty when it changes nothing that one wants to know.
func (h *holding) eventText(p palette, e fleetEvent, since time.Duration, recovered bool) (what string, style lipgloss.Style) {
	switch e.Kind {
	case evenkeel.EventResolved:
		if e.Err != nil {
			what, style = sentence(e.Err), p.alert
		}
	case evenkeel.EventConnected:
		what, style = "connected to "+e.Endpoint.Addr()+seen(e.Event), p.good
		if recovered {
			what += ", " + shortDuration(since) + " after the loss"
		}
	case evenkeel.EventLeaving:
		what, style = e.String(), p.alert
	case evenkeel.EventUnchecked:
		what, style = e.Endpoint.Addr()+" does not say whether it fits this client: "+sentence(e.Err), p.alert
	case evenkeel.EventCandidateFailed:
		what, style = sentence(h.adviser.explain(e.Err)), p.bad
	case evenkeel.EventBackingOff:
		// Candidates that failed have had lines of their own.
		what, style = "no session, next attempt in "+shortDuration(e.Wait), p.bad
		if attempt, ok := errors.AsType[*evenkeel.AttemptError](e.Err); ok && attempt.Err != nil {
			what += ": " + sentence(attempt.Err)
		}
	case evenkeel.EventLost, evenkeel.EventPanicked:
		what, style = e.String(), p.bad
	default:
	}
	return what, style
}

// seen tells the counts that led to a selection: that of the server, and those of the others.
func seen(e evenkeel.Event) string {
	own, others := "", []string(nil)
	for _, o := range e.Observations {
		switch {
		case o.Err != nil:
		case o.Endpoint.Addr() == e.Endpoint.Addr():
			own = number(o.Count.Connections)
		default:
			others = append(others, number(o.Count.Connections))
		}
	}
	switch {
	case own == "":
		return ""
	case len(others) == 0:
		return " (had " + own + ")"
	default:
		return " (had " + own + "; others " + strings.Join(others, ", ") + ")"
	}
}

// progressLine says where the clients are.
func progressLine(t *tally, clients int) string {
	ready := t.ready()
	line := fmt.Sprintf("%d of %s ready", ready, plural(clients, "client"))
	if ready < clients {
		line += fmt.Sprintf(", %d connecting", clients-ready)
	}
	if t.lost > 0 {
		line += fmt.Sprintf(", %s lost, %d replaced", plural(t.lost, "session"), len(t.recoveries))
	}
	if t.failed > 0 {
		line += fmt.Sprintf(", %s failed", plural(t.failed, "attempt"))
	}
	return line
}

// spreadTable lists how many clients each server has.
func spreadTable(p palette, connections map[string]int) []string {
	list := &sheet{columns: []column{{"ENDPOINT", false}, {"CLIENTS", true}}}
	for _, server := range slices.SortedFunc(maps.Keys(connections), compareServers) {
		list.add(plain(server, number(connections[server]))...)
	}
	return list.lines(p)
}

func summaryLine(s connectSummary) string {
	line := fmt.Sprintf("%d of %s ready", s.Ready, plural(s.Clients, "client"))
	if s.Recovery != nil {
		line += fmt.Sprintf("; %s replaced (median %.0f ms, p99 %.0f ms, max %.0f ms)",
			plural(s.Recovery.Count, "session"), s.Recovery.Median, s.Recovery.P99, s.Recovery.Max)
	}
	return line
}

// plural counts things.
func plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

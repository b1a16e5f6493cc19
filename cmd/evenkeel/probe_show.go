// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/internal/dial"
)

// probeReport is an object of probe --json.
type probeReport struct {
	Time        time.Time          `json:"time"`
	Round       int                `json:"round"`
	Endpoint    string             `json:"endpoint"`
	Priority    uint16             `json:"priority"`
	Weight      uint16             `json:"weight"`
	Address     string             `json:"address,omitempty"`
	Connections *int               `json:"connections,omitempty"`
	Capacity    int                `json:"capacity,omitempty"`
	Draining    bool               `json:"draining,omitempty"`
	LatencyMS   *float64           `json:"latency_ms,omitempty"`
	HTTP        string             `json:"http,omitempty"`
	Certificate *certificateReport `json:"certificate,omitempty"`
	Error       string             `json:"error,omitempty"`
	Misfit      string             `json:"incompatible,omitempty"`
	PickChance  *float64           `json:"pick_chance,omitempty"`
}

// prober makes the prober of a command; the caller closes it.
func (t *target) prober(c *console, cs *connstring.ConnString) (*balance.HTTPProber, error) {
	config, err := t.tlsConfig(c, cs)
	if err != nil {
		return nil, err
	}
	if t.plaintext {
		return balance.NewProber(balance.ProberConfig{Plaintext: true, NoProxy: t.noProxy})
	}
	return balance.NewProber(balance.ProberConfig{TLS: config, NoProxy: t.noProxy})
}

// fitting makes the question whether servers fit.
func (t *target) fitting(c *console, cs *connstring.ConnString) (*fitting, error) {
	var config *tls.Config
	if !t.plaintext {
		var err error
		if config, err = t.tlsConfig(c, cs); err != nil {
			return nil, err
		}
	}
	f, err := newFitting(cs, config)
	if err == nil && t.noProxy {
		f.options = append(f.options, evenkeel.WithNoProxy())
	}
	return f, err
}

// show prints or draws a round.
func (p *probing) show(r round) {
	if p.asJSON {
		for i := range r.seen {
			p.console.object(p.report(r, i))
		}
		return
	}
	palette, width := newPalette(p.console.outScreen.colour), p.console.outScreen.wrapWidth()
	lines := r.table(palette, width)
	for _, line := range misfitLines(p.adviser, r.seen) {
		lines = append(append(lines, ""), wrap(line, width, 0)...)
	}
	if text := verdict(p.balancer, r.seen, r.chance); text != "" {
		lines = append(append(lines, ""), wrap(text, width, 0)...)
	}
	if p.screen != nil {
		p.shown = lines
		p.draw(lines)
		return
	}
	if p.watch {
		lines = append([]string{p.title()}, append(lines, "")...)
	}
	for _, line := range lines {
		p.console.printf("%s", line)
	}
}

// draw draws lines under the title.
func (p *probing) draw(lines []string) {
	palette := newPalette(p.console.outScreen.colour)
	p.screen.draw(append([]string{palette.faint.Render(p.title()), ""}, lines...))
}

// title heads a round of --watch.
func (p *probing) title() string {
	return fmt.Sprintf("%s  every %v, until Ctrl-C", time.Now().Format(time.TimeOnly), p.interval)
}

func (p *probing) report(r round, i int) probeReport {
	o := r.seen[i]
	report := probeReport{
		Time: r.at.UTC(), Round: p.rounds,
		Endpoint: o.Endpoint.Addr(), Priority: o.Endpoint.Priority, Weight: o.Endpoint.Weight,
	}
	if o.Count.Addr.IsValid() {
		report.Address = o.Count.Addr.String()
	}
	if len(r.chance) > 0 && !unreachable(o.Observation) {
		report.PickChance = &r.chance[i]
	}
	if o.misfit != nil {
		report.Misfit = printable(sentence(p.adviser.explain(o.misfit)), longestMisfit)
	}
	report.Capacity, report.Draining = o.capacity(), o.draining()
	if o.Err != nil {
		report.Error = printable(sentence(o.Err), longestError)
		return report
	}
	latency := milliseconds(o.Count.RTT)
	report.Connections, report.LatencyMS, report.HTTP = &o.Count.Connections, &latency, o.Count.Proto
	report.Certificate = describeCertificate(o.Count.TLS, r.at)
	return report
}

// longestMisfit bounds what is shown of a contract that does not fit.
const longestMisfit = 1000

// longestError bounds what is shown of an error that a server had a part in.
const longestError = 240

// whyNot is why a server gave no count, in the few words that a table has room for.
func whyNot(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %v", probeLimit)
	}
	if proxy, ok := errors.AsType[*dial.ProxyError](err); ok {
		return whyNotProxy(proxy)
	}
	if socket, ok := errors.AsType[*os.SyscallError](err); ok {
		return socket.Err.Error()
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok && name.IsNotFound {
		return "no such host"
	}
	if probe, ok := errors.AsType[*balance.ProbeError](err); ok {
		if probe.Err == nil {
			return strings.TrimSpace(fmt.Sprintf("status %d %s", probe.Status, http.StatusText(probe.Status)))
		}
		err = probe.Err
	}
	return printable(sentence(err), longestError)
}

// whyNotProxy names the proxy: what went wrong there says nothing of the server.
func whyNotProxy(err *dial.ProxyError) string {
	if err.Proxy == "" || err.Err == nil {
		return printable(sentence(err), longestError)
	}
	return "proxy " + err.Proxy + ": " + whyNot(err.Err)
}

// milliseconds rounds to microseconds.
func milliseconds(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Microsecond)) / 1000
}

// shortDuration prints three figures or so.
func shortDuration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return fmt.Sprintf("%.1fms", milliseconds(d))
	default:
		return d.Round(10 * time.Millisecond).String()
	}
}

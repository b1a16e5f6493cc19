// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/connstring"
)

// probeReport is an object of probe --json.
type probeReport struct {
	Time        time.Time          `json:"time"`
	Round       int                `json:"round"`
	Endpoint    string             `json:"endpoint"`
	Priority    uint16             `json:"priority"`
	Weight      uint16             `json:"weight"`
	Address     string             `json:"address,omitempty"`
	Connections *int               `json:"connections"`
	LatencyMS   *float64           `json:"latency_ms,omitempty"`
	HTTP        string             `json:"http,omitempty"`
	Certificate *certificateReport `json:"certificate"`
	Error       string             `json:"error,omitempty"`
	PickChance  float64            `json:"pick_chance"`
}

// prober makes the prober of a command; the caller closes it.
func (t *target) prober(c *console, cs *connstring.ConnString) (*balance.HTTPProber, error) {
	config, err := t.tlsConfig(c, cs)
	if err != nil {
		return nil, err
	}
	if t.plaintext {
		return balance.NewProber(balance.ProberConfig{Plaintext: true})
	}
	return balance.NewProber(balance.ProberConfig{TLS: config})
}

// show prints or draws a round.
func (p *probing) show(seen []balance.Observation, chance []float64) {
	if p.asJSON {
		for i, o := range seen {
			p.console.object(p.report(o, chance[i]))
		}
		return
	}
	palette := newPalette(p.console.outScreen.colour)
	lines := probeLines(palette, seen, chance, time.Now())
	lines = append(lines, "", verdict(p.balancer, seen, chance))
	if p.screen != nil {
		p.screen.draw(append([]string{palette.faint.Render(p.title()), ""}, lines...))
		return
	}
	if p.watch {
		lines = append([]string{p.title()}, append(lines, "")...)
	}
	for _, line := range lines {
		p.console.printf("%s", line)
	}
}

// title heads a round of --watch.
func (p *probing) title() string {
	return fmt.Sprintf("%s  every %v, until Ctrl-C", time.Now().Format(time.TimeOnly), p.interval)
}

func (p *probing) report(o balance.Observation, chance float64) probeReport {
	report := probeReport{
		Time: time.Now().UTC(), Round: p.rounds,
		Endpoint: o.Endpoint.Addr(), Priority: o.Endpoint.Priority, Weight: o.Endpoint.Weight, PickChance: chance,
	}
	if o.Count.Addr.IsValid() {
		report.Address = o.Count.Addr.String()
	}
	if o.Err != nil {
		report.Error = printable(sentence(o.Err), longestError)
		return report
	}
	latency := milliseconds(o.Count.RTT)
	report.Connections, report.LatencyMS, report.HTTP = &o.Count.Connections, &latency, o.Count.Proto
	report.Certificate = describeCertificate(o.Count.TLS, time.Now())
	return report
}

// probeLines renders a round for a person.
func probeLines(p palette, seen []balance.Observation, chance []float64, now time.Time) []string {
	list := sheet{columns: []column{
		{"PICK", true},
		{"ENDPOINT", false},
		{"PRIO", true},
		{"WEIGHT", true},
		{"COUNT", true},
		{"LATENCY", true},
		{"HTTP", false},
		{"CERTIFICATE, OR WHY NOT", false},
	}}
	for i, o := range seen {
		e := o.Endpoint
		pick := ""
		if chance[i] > 0 {
			pick = p.good.Render(fmt.Sprintf("%.0f%%", 100*chance[i]))
		}
		row := []string{pick, e.Addr(), number(e.Priority), number(e.Weight), "-", "-", "-"}
		if o.Err != nil {
			list.add(append(row, p.bad.Render(whyNot(o.Err)))...)
			continue
		}
		certificate := describeCertificate(o.Count.TLS, now)
		list.add(append(row[:4], number(o.Count.Connections), shortDuration(o.Count.RTT), o.Count.Proto, certificate.String())...)
	}
	return list.lines(p)
}

// longestError bounds what is shown of an error that a server had a part in.
const longestError = 240

// whyNot is why a server gave no count, in the few words that a table has room for.
func whyNot(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %v", probeLimit)
	}
	if socket, ok := errors.AsType[*os.SyscallError](err); ok {
		return socket.Err.Error()
	}
	if probe, ok := errors.AsType[*balance.ProbeError](err); ok {
		if probe.Err == nil {
			return strings.TrimSpace(fmt.Sprintf("status %d %s", probe.Status, http.StatusText(probe.Status)))
		}
		err = probe.Err
	}
	return printable(sentence(err), longestError)
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

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// phaseName is a phase of a demonstration.
type phaseName string

const (
	phaseStart    phaseName = "start"
	phaseKilled   phaseName = "killed"
	phaseReturned phaseName = "returned"
)

// demoReport is the object of demo --json.
type demoReport struct {
	Servers int           `json:"servers"`
	Clients int           `json:"clients"`
	Phases  []phaseReport `json:"phases"`
}

// phaseReport is what was measured at the end of a phase.
type phaseReport struct {
	Name           phaseName      `json:"name"`
	Connections    map[string]int `json:"connections"`
	MaxOverMean    float64        `json:"max_over_mean"`
	RecoveryMedian *float64       `json:"recovery_ms_median,omitempty"`
	RecoveryMax    *float64       `json:"recovery_ms_max,omitempty"`
}

// check is something that has to hold.
type check struct {
	text string
	held bool
}

// enter begins a phase.
func (d *demo) enter(phase phaseName) {
	d.phase = phase
	d.view.entered()
}

// record measures the phase: the sessions of each server that is alive.
func (d *demo) record() phaseReport {
	connections := d.tally.connections()
	if d.down {
		delete(connections, d.target)
	}
	report := phaseReport{Name: d.phase, Connections: connections, MaxOverMean: spread(connections)}
	if moved := summarise(d.moved); moved != nil && d.phase == phaseKilled {
		report.RecoveryMedian, report.RecoveryMax = &moved.Median, &moved.Max
	}
	d.reports = append(d.reports, report)
	d.view.recorded(report)
	return report
}

// expect notes whether something holds.
func (d *demo) expect(held bool, format string, args ...any) {
	c := check{text: fmt.Sprintf(format, args...), held: held}
	d.checks = append(d.checks, c)
	d.view.checked(c)
}

// judge fails when something did not hold.
func (d *demo) judge() error {
	for _, c := range d.checks {
		if !c.held {
			return fmt.Errorf("this should have gone otherwise: %s", c.text)
		}
	}
	return nil
}

// tolerance is how far from even a server may be: one client, or a tenth where there are many.
func tolerance(even float64) float64 { return max(1, math.Floor(even/10)) }

// limits are the least and the most clients that a server may have.
func limits(even float64) (least, most int) {
	return int(math.Floor(even) - tolerance(even)), int(math.Ceil(even) + tolerance(even))
}

// within says whether every server has about as many clients as it should.
func within(connections map[string]int, even float64) bool {
	least, most := limits(even)
	for _, n := range connections {
		if n < least || n > most {
			return false
		}
	}
	return len(connections) > 0
}

// band says in words what within checks.
func band(connections map[string]int, even float64) string {
	var counts []string
	for _, server := range slices.SortedFunc(maps.Keys(connections), compareServers) {
		counts = append(counts, number(connections[server]))
	}
	least, most := limits(even)
	return fmt.Sprintf("%s (%d to %d allowed)", strings.Join(counts, ", "), max(least, 0), most)
}

// victim is the server that is killed: one in the middle.
func (d *demo) victim() *evenkeeltest.Server { return d.cluster.Servers[(d.servers-1)/2] }

// serverKey is the name under which clients that came through the DNS know a server.
func serverKey(s *evenkeeltest.Server) string {
	return discover.Endpoint{Host: s.Name(), Port: s.Endpoint().Port}.Addr()
}

// shortServer is the first label of the name of a server in the cluster's domain.
func shortServer(server string) string {
	name, _, _ := strings.Cut(server, ".")
	return name
}

// listed are the numbers of connections, by server.
func listed(connections map[string]int) string {
	var parts []string
	for _, server := range slices.SortedFunc(maps.Keys(connections), compareServers) {
		parts = append(parts, fmt.Sprintf("%s %d", shortServer(server), connections[server]))
	}
	return strings.Join(parts, ", ")
}

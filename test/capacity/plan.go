// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// plan says what is measured.
type plan struct {
	program  string
	sessions int
	rounds   int
	window   time.Duration
}

// settle is how long sessions are left alone after the last has begun, or the window where that is shorter: handshakes
// cost more than sessions do.
const settle = 3 * time.Second

// sample is one measurement of one server.
type sample struct {
	rss     int64         // bytes, the median over the window
	cpu     time.Duration // in the window
	answers int64         // in the window
}

// result holds the samples of each kind, in the order in which they were taken.
type result struct {
	plan plan
	bare []sample
	ours []sample
}

// run measures both servers in turn, so that what else goes on in the machine concerns both.
func (p plan) run(ctx context.Context) (result, error) {
	if p.sessions < 1 || p.rounds < 1 || p.window < time.Second {
		return result{}, errors.New("sessions and rounds must be 1 or more, and the window 1s or more")
	}
	r := result{plan: p}
	for range p.rounds {
		for _, side := range []struct {
			kind    string
			samples *[]sample
		}{{kindBare, &r.bare}, {kindOurs, &r.ours}} {
			s, err := p.measure(ctx, side.kind)
			if err != nil {
				return result{}, fmt.Errorf("measure %s: %w", side.kind, err)
			}
			*side.samples = append(*side.samples, s)
		}
	}
	return r, nil
}

// measure takes one sample.
func (p plan) measure(ctx context.Context, kind string) (s sample, err error) {
	server, err := start(ctx, p.program, kind)
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	var l load
	defer func() { err = errors.Join(l.close(), err) }()
	if err := l.open(ctx, server.addr, p.sessions); err != nil {
		return sample{}, err
	}
	if err := wait(ctx, min(settle, p.window)); err != nil {
		return sample{}, err
	}
	return p.watch(ctx, server, &l)
}

// watch looks at a server for the length of the window.
func (p plan) watch(ctx context.Context, server *process, l *load) (sample, error) {
	const looks = 8
	before, err := server.usage()
	if err != nil {
		return sample{}, err
	}
	answers := l.answers.Load()
	var after usage
	var rss []int64
	for range looks {
		if err := wait(ctx, p.window/looks); err != nil {
			return sample{}, err
		}
		if after, err = server.usage(); err != nil {
			return sample{}, err
		}
		rss = append(rss, after.rss)
	}
	slices.Sort(rss)
	return sample{rss: rss[len(rss)/2], cpu: after.cpu - before.cpu, answers: l.answers.Load() - answers}, nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// memory and processor are how much more ours takes than the bare one, as a factor: of the medians, and of the sums.
func (r result) memory() float64 { return float64(medianRSS(r.ours)) / float64(medianRSS(r.bare)) }

func (r result) processor() float64 { return float64(totalCPU(r.ours)) / float64(totalCPU(r.bare)) }

func medianRSS(samples []sample) int64 {
	var all []int64
	for _, s := range samples {
		all = append(all, s.rss)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func totalCPU(samples []sample) time.Duration {
	var total time.Duration
	for _, s := range samples {
		total += s.cpu
	}
	return total
}

// print writes a table.
func (r result) print(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%d sessions\tRSS MiB\tKiB each\tCPU %%\tanswers/s\n", r.plan.sessions)
	for i := range r.bare {
		r.row(table, kindBare, r.bare[i])
		r.row(table, kindOurs, r.ours[i])
	}
	fmt.Fprintf(table, "%s / %s\t%.3f\t\t%.3f\t\n", kindOurs, kindBare, r.memory(), r.processor())
	_ = table.Flush() // what could not be printed cannot be reported there either
}

func (r result) row(w io.Writer, kind string, s sample) {
	fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.0f\n", kind, float64(s.rss)/(1<<20), float64(s.rss)/(1<<10)/float64(r.plan.sessions),
		100*s.cpu.Seconds()/r.plan.window.Seconds(), float64(s.answers)/r.plan.window.Seconds())
}

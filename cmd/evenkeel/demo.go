// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

const (
	maxDemoServers = 9
	maxDemoClients = 200
	// clientsPerServer is the least: fewer cannot show that a server lost some and others took them.
	clientsPerServer = 2

	// demoLimit ends a demonstration that does not end by itself.
	demoLimit = 28 * time.Second
	// rollout is about how long it takes until all clients have been started, and pace the longest time between two of
	// them. No more than a few are on their way at a time, as when programs are rolled out: two clients that decide in the
	// same instant see the same counts and pick the same server, and with two at a time a server is off by one at most.
	rollout     = 2 * time.Second
	pace        = 50 * time.Millisecond
	onTheirWay  = 2
	rolloutPart = 20 // of many clients, a twentieth is on its way
	// recoveryLimit is how soon the clients of the dead server have to be ready elsewhere.
	recoveryLimit = time.Second
	// patience is how long a demonstration waits for what should take a second.
	patience = 6 * time.Second
	// maturity is how long the clients are left alone before the kill: a session that lived for less than two seconds
	// counts as a failed attempt, whose client backs off.
	maturity = 2500 * time.Millisecond
	// heldUp is how long a demonstration may get no time of the processor before what goes wrong says nothing of the
	// fleet: clients that wake up together see the same counts and pick the same server.
	heldUp = 50 * time.Millisecond
	// look is how long the later phases stay when somebody watches, and glance when nobody does.
	look   = 2500 * time.Millisecond
	glance = time.Second
)

const demoHelp = `
Start a cluster in this process, servers with TLS and a name server with their SRV records, and a fleet of clients that
connect through chronicle+srv:// with least-connections. Then one server is killed without notice, its clients move to
the others, it comes back, and new clients fill it. Everything is real but the distance: all sockets are on 127.0.0.1.

It ends by itself after about 12 seconds, or 8 when nobody watches. The exit status is 0 only when the clients spread
evenly, moved within a second, and filled the returned server. Servers and clients share this machine: when it is so busy
that all of them were held up together and something did not hold, this is told and everything shown once more.

With --json, the last line on standard output is an object; fields without a
value are left out:

  servers  how many there are
  clients  how many there are before the new ones
  phases   a list; each one has
    name                "start", "killed" or "returned"
    connections         sessions by endpoint, of the servers alive then
    max_over_mean       1 is perfectly even
    recovery_ms_median  only with "killed": from the kill until the
    recovery_ms_max     clients of the dead server were ready elsewhere`

const demoExamples = `  evenkeel demo
  evenkeel demo --servers 5 --clients 60
  evenkeel demo --json | jq .phases`

func newDemo(c *console) *cobra.Command {
	d := &demo{console: c}
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "Show a fleet spread over a cluster and survive a killed server",
		Long:    paragraphs(demoHelp),
		Example: demoExamples,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := d.check(); err != nil {
				return err
			}
			return d.run(cmd.Context())
		},
	}
	cmd.Flags().IntVar(&d.servers, "servers", 3, fmt.Sprintf("the number of servers, 2 to %d", maxDemoServers))
	cmd.Flags().IntVar(&d.clients, "clients", 30,
		fmt.Sprintf("the number of clients, %d for each server to %d in all", clientsPerServer, maxDemoClients))
	cmd.Flags().BoolVar(&d.asJSON, "json", false, "print JSON, on one line at the end")
	return cmd
}

// demo is a run of the command.
type demo struct {
	console *console
	servers int
	clients int
	asJSON  bool

	cluster *evenkeeltest.Cluster
	fleet   *fleet
	tally   tally
	view    demoView
	pause   time.Duration // how long the later phases stay
	frames  *time.Ticker
	framed  time.Time     // when the last picture was due
	stall   time.Duration // the most that a picture came too late
	spoilt  bool          // it should be shown once more

	started  int // clients
	began    time.Time
	phase    phaseName // empty when all are over
	target   string    // the server that is killed, as clients that came through the DNS know it
	down     bool      // it is dead now
	killedAt time.Time
	moved    []time.Duration // from the kill until ready elsewhere
	reports  []phaseReport
	checks   []check
}

// check finds what cannot be shown.
func (d *demo) check() error {
	if err := inRange("servers", d.servers, 2, maxDemoServers); err != nil {
		return err
	}
	if least := clientsPerServer * d.servers; d.clients < least || d.clients > maxDemoClients {
		return usage("with %d servers flag --clients must lie between %d, which is %d for each server, and %d",
			d.servers, least, clientsPerServer, maxDemoClients)
	}
	return nil
}

// run shows it, once more where the machine was too busy and there is time.
func (d *demo) run(ctx context.Context) error {
	limited, cancel := context.WithTimeoutCause(ctx, demoLimit, fmt.Errorf("not done after %v", demoLimit))
	defer cancel()
	for {
		show := &demo{console: d.console, servers: d.servers, clients: d.clients, asJSON: d.asJSON}
		if err := show.perform(limited); err != nil || !show.spoilt {
			return err
		}
		d.console.complain("this machine is busy and held everything up for %v: once more", show.stall.Round(time.Millisecond))
	}
}

// perform shows it once. It is spoilt when it should be shown once more.
func (d *demo) perform(ctx context.Context) (err error) {
	d.cluster, err = evenkeeltest.New(evenkeeltest.Config{Servers: d.servers})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.cluster.Close()) }()
	cs, err := connstring.Parse(d.cluster.SRVConnectionString())
	if err != nil {
		return err
	}
	d.fleet, err = newFleet(fleetConfig{connString: cs, tls: d.cluster.TLS(), jitter: defaultJitter})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.fleet.close()) }()
	d.prepare()
	defer d.frames.Stop()
	if err := d.play(ctx); err != nil {
		d.view.abort()
		return err
	}
	failure := d.judge()
	deadline, _ := ctx.Deadline()
	if d.spoilt = failure != nil && d.repeatable(time.Since(d.began), time.Until(deadline)); d.spoilt {
		d.view.abort()
		return nil
	}
	d.view.end()
	return failure
}

// prepare sets up what is shown, before the first client starts.
func (d *demo) prepare() {
	d.tally.settlers = d.clients
	for _, s := range d.cluster.Servers {
		d.tally.servers = append(d.tally.servers, serverKey(s))
	}
	d.target = serverKey(d.victim())
	d.pause, d.view = glance, newDemoView(d)
	if d.console.outScreen.live() && !d.asJSON {
		d.pause = look
	}
	// One for all waits: the shortest of them end before a picture is due.
	d.frames = time.NewTicker(frame)
	d.began = time.Now()
}

// repeatable says that a failure may be the machine's, and that there is time to show everything once more, which may
// take a little longer than it took.
func (d *demo) repeatable(took, left time.Duration) bool {
	return d.stall > heldUp && left > took+took/4
}

// play is the demonstration from beginning to end.
func (d *demo) play(ctx context.Context) error {
	for _, scene := range []func(context.Context) error{d.start, d.kill, d.revive} {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	return nil
}

// start brings up the clients.
func (d *demo) start(ctx context.Context) error {
	d.enter(phaseStart)
	if err := d.addClients(ctx, d.clients); err != nil {
		return err
	}
	if err := d.calm(ctx, maturity); err != nil {
		return err
	}
	report := d.record()
	even := float64(d.clients) / float64(d.servers)
	d.expect(within(report.Connections, even), "they started evenly: %s", band(report.Connections, even))
	return nil
}

// kill takes a server away. Its clients have to move by themselves.
func (d *demo) kill(ctx context.Context) error {
	d.enter(phaseKilled)
	orphans := d.tally.connections()[d.target]
	d.killedAt = time.Now()
	if err := d.victim().Kill(); err != nil {
		return err
	}
	d.down = true
	if err := d.until(ctx, func() bool { return len(d.moved) >= orphans }); err != nil {
		return err
	}
	if err := d.calm(ctx, d.pause); err != nil {
		return err
	}
	report := d.record()
	if report.RecoveryMax != nil {
		d.expect(*report.RecoveryMax <= milliseconds(recoveryLimit),
			"%s of %s moved and had a session again after %.0f ms at most (%.0f allowed)",
			plural(orphans, "client"), shortServer(d.target), *report.RecoveryMax, milliseconds(recoveryLimit))
	}
	even := float64(d.clients) / float64(d.servers-1)
	d.expect(within(report.Connections, even), "they were even again: %s", band(report.Connections, even))
	return nil
}

// revive brings the server back, and as many new clients as it takes until it has its share.
func (d *demo) revive(ctx context.Context) error {
	d.enter(phaseReturned)
	if err := d.victim().Restart(); err != nil {
		return err
	}
	d.down = false
	if err := d.addClients(ctx, d.newcomers()); err != nil {
		return err
	}
	if err := d.calm(ctx, d.pause); err != nil {
		return err
	}
	report := d.record()
	even := float64(d.clients+d.newcomers()) / float64(d.servers)
	d.expect(within(report.Connections, even), "the new clients filled the returned server: %s", band(report.Connections, even))
	return nil
}

// newcomers is how many clients the returned server needs to have as many as the others.
func (d *demo) newcomers() int {
	return int(math.Round(float64(d.clients) / float64(d.servers-1)))
}

// addClients starts clients one after the other.
func (d *demo) addClients(ctx context.Context, n int) error {
	wait := min(pace, rollout/time.Duration(max(n, 1)))
	most := max(onTheirWay, n/rolloutPart)
	room := func() bool { return d.started-d.tally.ready() < most }
	for range n {
		if err := d.fleet.add(); err != nil {
			return err
		}
		d.started++
		if err := d.pass(ctx, wait); err != nil {
			return err
		}
		if err := d.until(ctx, room); err != nil {
			return err
		}
	}
	return nil
}

// calm waits until all clients are ready, and then a while.
func (d *demo) calm(ctx context.Context, while time.Duration) error {
	all := func() bool { return d.tally.ready() == d.started }
	if err := d.until(ctx, all); err != nil {
		return err
	}
	return d.pass(ctx, while)
}

// pass lets time go by.
func (d *demo) pass(ctx context.Context, span time.Duration) error {
	_, err := d.pump(ctx, span, func() bool { return false })
	return err
}

// until waits for something that should take a moment.
func (d *demo) until(ctx context.Context, done func() bool) error {
	finished, err := d.pump(ctx, patience, done)
	if err != nil || finished {
		return err
	}
	if client, cause := d.fleet.failure(); cause != nil {
		return fmt.Errorf("client %d has no session after %v: %w", client, patience, adviser{}.explain(cause))
	}
	return fmt.Errorf("the clients of the killed server did not notice within %v", patience)
}

// pump takes in events and draws, until done or for a span.
func (d *demo) pump(ctx context.Context, span time.Duration, done func() bool) (finished bool, err error) {
	timer := time.NewTimer(span)
	defer timer.Stop()
	for !done() {
		select {
		case e := <-d.fleet.events:
			d.apply(e)
		case <-d.frames.C:
			d.late(time.Now())
			d.view.frame()
		case <-timer.C:
			return false, nil
		case <-ctx.Done():
			return false, interrupted(ctx)
		}
	}
	return true, nil
}

// late notes how much too late a picture is: so long has nothing of this process got on.
func (d *demo) late(now time.Time) {
	if !d.framed.IsZero() {
		d.stall = max(d.stall, now.Sub(d.framed)-frame)
	}
	d.framed = now
}

func (d *demo) apply(e fleetEvent) {
	if _, recovered := d.tally.apply(e); recovered && d.phase == phaseKilled {
		d.moved = append(d.moved, e.Time.Sub(d.killedAt))
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import (
	"log/slog"
	"time"

	"github.com/evenkeel-go/evenkeel/channel/internal/policy"
	"github.com/evenkeel-go/evenkeel/discover"
)

// result takes what a lookup has brought.
func (r *liveResolver) result(result discover.PollResult) {
	found := result.Failures == 0 && len(result.Endpoints) > 0
	// Endpoints that the source has kept from earlier are better than none, and no better than ours.
	kept := !found && len(result.Endpoints) > 0 && len(r.set) == 0
	r.report(result, found || kept)
	if found || kept {
		r.publish(result.Endpoints)
	}
	if !found {
		r.fail(result.Err)
	}
}

// fail tells grpc-go of a failed lookup. Without a set that is the error of the calls. With one our policies add it to
// the error of calls that fail anyway; what others do with it is not known, so that they are not told.
func (r *liveResolver) fail(err error) {
	if len(r.set) == 0 || r.isOurs() {
		r.failed = true
		r.config.cc.ReportError(err)
	}
}

// report tells of a resolution.
func (r *liveResolver) report(result discover.PollResult, served bool) {
	resolution := Resolution{
		Target: r.config.target, At: result.At, Duration: result.Took, Err: result.Err, Class: result.Class,
	}
	if served {
		resolution.Endpoints = len(result.Endpoints)
	}
	level := slog.LevelDebug
	if result.Failures == 1 { // those after it say nothing new
		level = slog.LevelWarn
	}
	record := r.record(level, "target resolved", slog.Duration("duration", result.Took), slog.Int("endpoints", resolution.Endpoints))
	if result.Err != nil {
		record.AddAttrs(slog.String("class", result.Class), slog.Any("error", result.Err))
	}
	r.channel.metrics.resolved(resolution)
	r.channel.observe.resolved(resolution, record)
}

// publish hands a set to grpc-go, unless it has it already and there is no other reason to.
func (r *liveResolver) publish(endpoints []discover.Endpoint) {
	next := newIndex(endpoints)
	change, differs := r.set.change(next)
	config, ours := r.service()
	if !differs && r.accepted && !r.failed && config == r.sent && !r.wanting() {
		return
	}
	backups := r.isOurs() && (ours || config == r.sent)
	r.set, r.sent = next, config
	r.remember(endpoints)
	if differs {
		r.changed(change)
	}
	r.accepted, r.failed = r.send(endpoints, backups), false
}

// wanting says whether an answer that is the same as before is of use: one of our policies tries endpoints that have
// failed again with each one, and is given the backups that it has not yet.
func (r *liveResolver) wanting() bool {
	r.mu.Lock()
	ours, short := r.ours, r.short
	r.mu.Unlock()
	return ours && (short || r.states.failing())
}

// send hands a set to grpc-go and says whether it was taken. Only our policies know backups, and which policy is at work
// is seen when it has been given something: where that was the wrong thing it is given the right one at once.
func (r *liveResolver) send(endpoints []discover.Endpoint, backups bool) bool {
	state := shape{named: r.config.named, backups: backups}.toState(endpoints)
	ranked := hasBackups(endpoints)
	if r.sent != "" {
		state.ServiceConfig = r.config.cc.ParseServiceConfig(r.sent)
	}
	r.mu.Lock()
	before := r.took
	r.short, r.busy = ranked && !backups, true
	r.mu.Unlock()
	err := r.config.cc.UpdateState(policy.WithOrigin(policy.WithHooks(state, r.hooks)))
	ours := r.judge(before)
	if ranked && ours != backups {
		return r.send(endpoints, ours)
	}
	if err != nil {
		r.channel.observe.log(r.record(slog.LevelWarn,
			"policy refused the endpoints; they are offered again after the next lookup", slog.Any("error", err)))
	}
	return err == nil
}

// judge says whether one of our policies took the state that has been sent. What one that is at work no longer says, or
// has said, does not count.
func (r *liveResolver) judge(before uint64) bool {
	r.mu.Lock()
	ours := r.took != before
	left := r.ours && !ours
	r.ours, r.busy = ours, false
	if left {
		r.anewLocked()
	}
	r.mu.Unlock()
	if left {
		r.hooks.Release()
		r.states.clear()
	}
	return ours
}

func (r *liveResolver) isOurs() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ours
}

// service returns the service config to send, empty for none, and whether its policy is one of ours. One of DNS that
// grpc-go refuses is left out.
func (r *liveResolver) service() (string, bool) {
	c := r.channel
	if r.txt != nil {
		if given := r.txt.get(); given != nil {
			merged := c.service.with(given).withDrain(c.config.DrainTimeout)
			name, err := merged.policy()
			if err == nil {
				err = r.config.cc.ParseServiceConfig(merged.json()).Err
			}
			if err == nil {
				return merged.json(), isOurs(name)
			}
			r.leftOut(err)
		}
	}
	// grpc-go keeps one that it was sent until it is sent another.
	if r.sent == "" && r.config.from == serviceFromOptions || r.config.noService {
		return "", isOurs(c.policyName)
	}
	return c.service.json(), isOurs(c.policyName)
}

func (r *liveResolver) remember(endpoints []discover.Endpoint) {
	last := remembered{endpoints: endpoints}
	if r.txt != nil {
		last.txt = r.txt.get()
	}
	r.channel.memory.put(r.config.target, last)
}

// changed tells of a new set.
func (r *liveResolver) changed(change Change) {
	change.Target, change.At = r.config.target, time.Now()
	record := r.record(slog.LevelInfo, "endpoints changed",
		slog.Int("added", len(change.Added)), slog.Int("removed", len(change.Removed)), slog.Int("kept", len(change.Kept)))
	r.channel.metrics.changed(change)
	r.channel.observe.changed(change, record)
}

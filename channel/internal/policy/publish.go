// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
)

const (
	batchSpan = 10 * time.Millisecond // for which endpoints that become ready wait for others
	maxCauses = 3                     // endpoints named in an error
)

// view is what the channel is to see: its state, and the level in rotation when that is ready.
type view struct {
	state connectivity.State
	level *level
}

// viewLocked returns what the channel is to see now. The best level with any endpoint ready is in rotation, whether a
// better one is still trying or not.
func (p *policy) viewLocked() view {
	failed := true
	for _, l := range p.levels {
		if l.ready > 0 {
			return view{state: connectivity.Ready, level: l}
		}
		failed = failed && l.hasFailed()
	}
	if failed && (len(p.levels) > 0 || p.lookupErr != nil) {
		return view{state: connectivity.TransientFailure}
	}
	return view{state: connectivity.Connecting}
}

// settleLocked is called after every change. It publishes at once what calls must not wait for: another state, another
// level, and, when urgent is set, that something left the rotation. Joiners wait a little for others.
func (p *policy) settleLocked(urgent bool) {
	p.syncLevelsLocked()
	now := p.viewLocked()
	if was := p.shown.state == connectivity.Ready; was != (now.state == connectivity.Ready) {
		p.tellUsableLocked(!was)
	}
	if now.state != connectivity.Ready && p.shown.state == connectivity.Ready {
		p.hurryAllLocked()
	}
	if urgent || now != p.shown {
		p.publishLocked()
		return
	}
	if p.batch == nil && p.staleLocked(now) {
		p.batch = time.AfterFunc(batchSpan, p.publishBatch)
	}
}

// staleLocked says that the picker does not show what it could.
func (p *policy) staleLocked(now view) bool {
	switch now.state {
	case connectivity.Ready:
		return now.level.stale
	case connectivity.TransientFailure:
		for _, l := range p.levels {
			if l.stale {
				return true
			}
		}
	default:
	}
	return false
}

func (p *policy) publishBatch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed && p.batch != nil {
		p.publishLocked()
	}
}

// publishLocked gives the channel a new picker. Calls that wait for one try again with it.
func (p *policy) publishLocked() {
	if p.batch != nil {
		p.batch.Stop() // one that has fired already finds nothing to do, or the batch after this one
		p.batch = nil
	}
	for _, l := range p.levels {
		l.stale = false
	}
	p.shown = p.viewLocked()
	p.cc.UpdateState(balancer.State{ConnectivityState: p.shown.state, Picker: p.pickerLocked()})
}

func (p *policy) pickerLocked() balancer.Picker {
	switch p.shown.state {
	case connectivity.Ready:
		links := make([]*link, 0, p.shown.level.ready)
		weights := make([]uint32, 0, p.shown.level.ready)
		for _, c := range p.order {
			if c.link != nil && c.level == p.shown.level {
				links = append(links, c.link)
				weights = append(weights, c.weight)
			}
		}
		return p.newPicker(links, weights)
	case connectivity.TransientFailure:
		return errorPicker{err: p.failureLocked()}
	default:
		return errorPicker{err: balancer.ErrNoSubConnAvailable}
	}
}

// failureLocked says why calls fail.
func (p *policy) failureLocked() error {
	if len(p.order) == 0 {
		return fmt.Errorf("name resolver error: %w", p.lookupErr)
	}
	var causes []string
	for _, c := range p.order[:min(maxCauses, len(p.order))] {
		causes = append(causes, fmt.Sprintf("%s: %v", c.addr, c.err))
	}
	if more := len(p.order) - maxCauses; more > 0 {
		causes = append(causes, fmt.Sprintf("and %d more", more))
	}
	if p.lookupErr != nil {
		causes = append(causes, fmt.Sprintf("latest lookup: %v", p.lookupErr))
	}
	return errors.New("no endpoint is usable: " + strings.Join(causes, "; "))
}

func (p *policy) tellUsableLocked(usable bool) {
	if hooks := p.hooks; hooks != nil && hooks.Usable != nil {
		p.tellLocked(hooks, func() { hooks.Usable(usable) })
	}
}

// tellLocked calls a hook later, unless the hooks are another policy's by then.
func (p *policy) tellLocked(hooks *Hooks, tell func()) {
	p.events.do(func() { hooks.tell(p, tell) })
}

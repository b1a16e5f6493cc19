// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package dial

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

// attemptDelay is how long one address has before the next one is tried beside it (RFC 8305 section 5).
const attemptDelay = 250 * time.Millisecond

type attempt struct {
	index int
	conn  net.Conn
	err   error
}

// race connects to the addresses, staggered, and returns the first connection. All attempts have ended when it returns.
func (d Dialer) race(ctx context.Context, addrs []netip.AddrPort) (net.Conn, error) {
	connect := d.connect
	if connect == nil {
		connect = connectTCP
	}
	attemptCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	attempts := make(chan attempt, len(addrs))
	errs := make([]error, len(addrs))
	stagger := time.NewTimer(attemptDelay)
	defer stagger.Stop()

	var winner net.Conn
	started, running := 0, 0
	for winner == nil && (running > 0 || started < len(addrs)) {
		if started < len(addrs) { // its turn has come: it is the first, or what is below has happened
			go func(index int, addr netip.AddrPort) {
				conn, err := connect(attemptCtx, addr)
				attempts <- attempt{index, conn, err}
			}(started, addrs[started])
			started++
			running++
			stagger.Reset(attemptDelay)
		}
		select {
		case <-stagger.C:
		case ended := <-attempts:
			running--
			winner, errs[ended.index] = ended.conn, ended.err
		}
		if ctx.Err() != nil {
			addrs = addrs[:started] // nothing new, but the ones under way report
		}
	}
	cancel()
	for ; running > 0; running-- {
		if late := <-attempts; late.conn != nil {
			_ = late.conn.Close() // nobody has used it: there is nothing to lose and nothing to report
		}
	}
	if winner == nil {
		return nil, errors.Join(errs...)
	}
	return winner, nil
}

// interleave alternates between the two families, beginning with the family of the first address, and keeps the order
// within each (RFC 8305 section 4). It changes addrs and returns it.
func interleave(addrs []netip.AddrPort) []netip.AddrPort {
	if len(addrs) < 3 {
		return addrs
	}
	first := addrs[0].Addr().Is4()
	var families [2][]netip.AddrPort
	for _, addr := range addrs {
		family := 0
		if addr.Addr().Is4() != first {
			family = 1
		}
		families[family] = append(families[family], addr)
	}
	addrs = addrs[:0]
	for i := 0; i < len(families[0]) || i < len(families[1]); i++ {
		for _, family := range families {
			if i < len(family) {
				addrs = append(addrs, family[i])
			}
		}
	}
	return addrs
}

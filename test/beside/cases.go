// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// scenario is something that happens to a fleet; run returns what came of it, one value for each column.
type scenario struct {
	name    string
	columns []string
	servers int
	apart   bool // the two must not run at the same time
	run     func(f *fleet, k kind) ([]string, error)
}

func scenarios() []scenario {
	all := []scenario{
		{"scale-up 2 -> 4, 40 s", []string{"calls at the new endpoints", "seconds until the first"}, 4, false, scaleUp},
		{"rolling replacement of 3, 45 s", []string{"failed calls", "calls"}, 3, false, replace},
	}
	for _, fault := range []struct {
		name  string
		fault evenkeeltest.DNSFault
	}{
		{"NXDOMAIN", evenkeeltest.DNSFault{Code: "NXDOMAIN"}},
		{"NODATA", evenkeeltest.DNSFault{Code: "NOERROR"}},
		{"SERVFAIL", evenkeeltest.DNSFault{Code: "SERVFAIL"}},
		{"silent name server", evenkeeltest.DNSFault{Silent: true}},
	} {
		all = append(all, scenario{
			fault.name + ", 1 of 3 stops, 40 s",
			[]string{"failed calls", "calls"},
			3, false,
			func(f *fleet, k kind) ([]string, error) { return outage(f, k, fault.fault) },
		})
	}
	return append(all,
		scenario{"close in a hung lookup", []string{"milliseconds"}, 1, false, hungClose},
		scenario{"100 endpoints", []string{"goroutines", "heap KiB"}, 100, true, hundred})
}

// warm makes calls until all of the servers have answered.
func warm(c *client, servers int) error {
	seen := make(map[int]bool)
	deadline := time.Now().Add(20 * time.Second)
	for len(seen) < servers {
		number, err := c.call()
		if err == nil {
			seen[number] = true
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("only %d of %d servers answer", len(seen), servers), err)
		}
	}
	return nil
}

func scaleUp(f *fleet, k kind) ([]string, error) {
	f.set(1, 2)
	c, err := f.dial(k)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := warm(c, 2); err != nil {
		return nil, err
	}
	calls := c.traffic(2)
	f.set(1, 2, 3, 4)
	time.Sleep(40 * time.Second)
	calls.stop()
	first := "never"
	if at := calls.first.Load(); at > 0 {
		first = fmt.Sprintf("%.1f", time.Duration(at).Seconds())
	}
	return []string{fmt.Sprint(calls.fresh.Load()), first}, nil
}

// replace starts a new server, puts it into DNS, takes an old one out and stops it in an orderly way 2 s later, thrice.
func replace(f *fleet, k kind) ([]string, error) {
	f.set(1, 2, 3)
	c, err := f.dial(k)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := warm(c, 3); err != nil {
		return nil, err
	}
	calls := c.traffic(3)
	ended := time.Now().Add(45 * time.Second)
	steps := [][]int{{2, 3, 4}, {3, 4, 5}, {4, 5, 6}}
	for i, set := range steps {
		if err := f.start(i + 4); err != nil {
			return nil, err
		}
		f.set(set...)
		time.Sleep(2 * time.Second)
		f.servers[i+1].GracefulStop()
	}
	time.Sleep(time.Until(ended))
	calls.stop()
	return []string{fmt.Sprint(calls.failed.Load()), fmt.Sprint(calls.made.Load())}, nil
}

// outage lets one of three servers stop while DNS is wrong. Calls that ran on it may fail.
func outage(f *fleet, k kind, fault evenkeeltest.DNSFault) ([]string, error) {
	f.set(1, 2, 3)
	c, err := f.dial(k)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := warm(c, 3); err != nil {
		return nil, err
	}
	if err := f.dns.SetFault("", "", fault); err != nil {
		return nil, err
	}
	calls := c.traffic(3)
	f.servers[1].GracefulStop()
	time.Sleep(40 * time.Second)
	calls.stop()
	return []string{fmt.Sprint(calls.failed.Load()), fmt.Sprint(calls.made.Load())}, nil
}

func hungClose(f *fleet, k kind) ([]string, error) {
	if err := f.dns.SetFault("", "", evenkeeltest.DNSFault{Silent: true}); err != nil {
		return nil, err
	}
	c, err := f.dial(k)
	if err != nil {
		return nil, err
	}
	c.Connect()
	time.Sleep(200 * time.Millisecond) // the lookup hangs
	began := time.Now()
	c.close()
	return []string{fmt.Sprintf("%.1f", float64(time.Since(began).Microseconds())/1000)}, nil
}

// hundred measures client and servers together, after all connections are ready.
func hundred(f *fleet, k kind) ([]string, error) {
	servers := make([]int, 100)
	for i := range servers {
		servers[i] = i + 1
	}
	f.set(servers...)
	goroutines, heap := measure()
	c, err := f.dial(k)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := warm(c, len(servers)); err != nil {
		return nil, err
	}
	time.Sleep(time.Second)
	g, h := measure()
	return []string{fmt.Sprint(g - goroutines), fmt.Sprint((h - heap) / 1024)}, nil
}

func measure() (goroutines int, heap int64) {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return runtime.NumGoroutine(), int64(stats.HeapAlloc) //nolint:gosec // small
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"text/tabwriter"
)

func main() {
	os.Exit(run(os.Stdout, os.Stderr)) //nolint:forbidigo // this is where the process ends
}

// outcome is what came of a scenario for one of the two.
type outcome struct {
	values []string
	err    error
}

// run runs all scenarios, those that may all at once, and prints the table.
func run(stdout, stderr io.Writer) int {
	all := scenarios()
	outcomes := make([][2]outcome, len(all))
	var running sync.WaitGroup
	for i, s := range all {
		for _, k := range []kind{stock, ours} {
			if !s.apart {
				running.Go(func() { outcomes[i][k] = one(s, i, k) })
			}
		}
	}
	running.Wait()
	for i, s := range all {
		for _, k := range []kind{stock, ours} {
			if s.apart {
				outcomes[i][k] = one(s, i, k)
			}
		}
	}
	return report(stdout, stderr, all, outcomes)
}

// one runs one scenario for one of the two, with a fleet of its own.
func one(s scenario, number int, k kind) outcome {
	f, err := newFleet(byte(100+2*number+int(k)), s.servers) //nolint:gosec // small
	if err != nil {
		return outcome{err: err}
	}
	values, err := s.run(f, k)
	return outcome{values: values, err: errors.Join(err, f.close())}
}

func report(stdout, stderr io.Writer, all []scenario, outcomes [][2]outcome) int {
	table := tabwriter.NewWriter(stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "what happens\tmeasured\tstock round_robin\tevenkeel_round_robin")
	status := 0
	for i, s := range all {
		if err := errors.Join(outcomes[i][stock].err, outcomes[i][ours].err); err != nil {
			fmt.Fprintf(stderr, "%s: %v\n", s.name, err)
			status = 1
			continue
		}
		for n, column := range s.columns {
			name := s.name
			if n > 0 {
				name = ""
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", name, column, outcomes[i][stock].values[n], outcomes[i][ours].values[n])
		}
	}
	if err := table.Flush(); err != nil {
		return 1
	}
	return status
}

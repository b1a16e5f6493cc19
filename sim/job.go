// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
)

// job is one simulation of several.
type job struct {
	scenario  Scenario
	algorithm Algorithm
	seed      uint64
	trace     *trace // nil where nobody asks for a history
	result    Result
	err       error
}

func (j *job) run(ctx context.Context) {
	j.result, j.err = runTraced(ctx, &j.scenario, j.algorithm, j.seed, j.trace)
}

// runAll runs the jobs, several at a time, the last ones first: those are the longest ones of a suite, of which none should
// be left to one worker at the end. It tells at once that none is done, and counts no job that ended with its context.
func runAll(ctx context.Context, jobs []job, workers int, progress func(done, all int)) error {
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		left = len(jobs)
		done int
	)
	take := func() *job {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 || ctx.Err() != nil {
			return nil
		}
		left--
		return &jobs[left]
	}
	if progress == nil {
		progress = func(int, int) {}
	}
	progress(0, len(jobs))
	for range workers {
		wg.Go(func() {
			for j := take(); j != nil; j = take() {
				j.run(ctx)
				mu.Lock()
				if ctx.Err() == nil {
					done++
					progress(done, len(jobs))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	var errs []error
	for i := range jobs {
		errs = append(errs, jobs[i].err)
	}
	return errors.Join(errs...)
}

// meanOf is the mean of what has a value, which 0 is not, and how far chance may have it off; 0 where nothing has one.
func meanOf(values []float64) (mean, standardError float64) {
	values = slices.DeleteFunc(values, func(x float64) bool { return x == 0 })
	n := float64(len(values))
	for _, x := range values {
		mean += x / n
	}
	if n < 2 {
		return mean, 0
	}
	squares := 0.0
	for _, x := range values {
		squares += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(squares / (n - 1) / n)
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
)

// job is one simulation of several.
type job struct {
	scenario  Scenario
	algorithm Algorithm
	seed      uint64
	points    int // of history
	result    Result
	err       error
}

func (j *job) run(ctx context.Context) {
	j.result, j.err = RunWithHistory(ctx, j.scenario, j.algorithm, j.seed, j.points)
}

// runAll runs the jobs, several at a time, the last ones first: those are the longest ones of a suite, of which none should
// be left to one worker at the end.
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
	for range workers {
		wg.Go(func() {
			for j := take(); j != nil; j = take() {
				j.run(ctx)
				mu.Lock()
				if done++; progress != nil {
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

// standardError is how far chance may have the mean of max/mean off.
func standardError(jobs []job, mean float64) float64 {
	if len(jobs) < 2 {
		return 0
	}
	squares, n := 0.0, float64(len(jobs))
	for i := range jobs {
		off := jobs[i].result.MaxOverMean - mean
		squares += off * off
	}
	return math.Sqrt(squares / (n - 1) / n)
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/balancer"
	_ "google.golang.org/grpc/balancer/weightedroundrobin" // to compare with

	"github.com/evenkeel-go/evenkeel/channel/internal/policy"
)

// BenchmarkPick compares a pick, with its Done, with that of grpc-go's own policies through the same interface.
func BenchmarkPick(b *testing.B) {
	names := []string{
		"pick_first", "round_robin", "least_request_experimental", "weighted_round_robin",
		policy.RoundRobin, policy.Random, policy.LeastRequest,
	}
	for _, name := range names {
		for _, n := range []int{10, 100, 1000} {
			b.Run(fmt.Sprintf("policy=%s/endpoints=%d", name, n), func(b *testing.B) {
				picker := readyPicker(b, name, addresses(n))
				info := balancer.PickInfo{FullMethodName: "/s/m", Ctx: context.Background()}
				b.Run("parallel=no", func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						pickOnce(b, picker, info)
					}
				})
				b.Run("parallel=yes", func(b *testing.B) {
					b.ReportAllocs()
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							pickOnce(b, picker, info)
						}
					})
				})
			})
		}
	}
}

func pickOnce(tb testing.TB, picker balancer.Picker, info balancer.PickInfo) {
	result, err := picker.Pick(info)
	if err != nil {
		tb.Error(err)
	}
	if result.Done != nil {
		result.Done(balancer.DoneInfo{})
	}
}

// BenchmarkPickRatio runs the policies in short turns and keeps the shortest of each, so that what else the machine does
// falls on none of them. It reports the times of a pick as multiples of grpc-go's policy.
func BenchmarkPickRatio(b *testing.B) {
	stocks := map[string]string{
		policy.RoundRobin: "round_robin", policy.Random: "round_robin", policy.LeastRequest: "least_request_experimental",
	}
	for _, workers := range []int{1, 2} {
		for _, n := range []int{10, 100, 1000} {
			for _, name := range policies() {
				b.Run(fmt.Sprintf("workers=%d/endpoints=%d/policy=%s", workers, n, name), func(b *testing.B) {
					own, stock := readyPicker(b, name, addresses(n)), readyPicker(b, stocks[name], addresses(n))
					ownTime, stockTime := time.Hour, time.Hour
					for b.Loop() {
						stockTime = min(stockTime, turn(b, stock, workers))
						ownTime = min(ownTime, turn(b, own, workers))
					}
					b.ReportMetric(float64(ownTime)/float64(stockTime), "ratio")
					b.ReportMetric(float64(ownTime.Nanoseconds())/turnPicks, "own-ns/pick")
					b.ReportMetric(float64(stockTime.Nanoseconds())/turnPicks, "stock-ns/pick")
				})
			}
		}
	}
}

const turnPicks = 20_000

// turn returns the time in which workers make turnPicks picks together.
func turn(tb testing.TB, picker balancer.Picker, workers int) time.Duration {
	tb.Helper()
	info := balancer.PickInfo{FullMethodName: "/s/m", Ctx: context.Background()}
	var working sync.WaitGroup
	begin := time.Now()
	for range workers {
		working.Go(func() {
			for range turnPicks / workers {
				pickOnce(tb, picker, info)
			}
		})
	}
	working.Wait()
	return time.Since(begin)
}

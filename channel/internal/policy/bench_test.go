// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy_test

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc/balancer"

	"github.com/evenkeel-go/evenkeel/channel/internal/policy"
)

// BenchmarkPick compares a pick, with its Done, with that of grpc-go's own policies through the same interface.
func BenchmarkPick(b *testing.B) {
	names := []string{
		"pick_first", "round_robin", "least_request_experimental", "weighted_round_robin",
		policy.RoundRobin, policy.Random, policy.LeastRequest,
	}
	for _, name := range names {
		if balancer.Get(name) == nil {
			continue // weighted_round_robin is there when the module of xDS is
		}
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

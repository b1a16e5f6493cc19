// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/evenkeel-go/evenkeel/channel"
)

func TestNewRefusesBadConfigs(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		config channel.Config
		want   string
	}{
		{"negative interval", channel.Config{Interval: -1}, "Interval is negative"},
		{"negative maximum", channel.Config{MaxInterval: -1}, "MaxInterval is negative"},
		{"negative floor", channel.Config{MinInterval: -1}, "MinInterval is negative"},
		{"negative drain", channel.Config{DrainTimeout: -1}, "DrainTimeout is negative"},
		{"floor above interval", channel.Config{Interval: time.Second, MinInterval: time.Minute}, "the MinInterval 1m0s is above the Interval 1s"},
		{"floor above default interval", channel.Config{MinInterval: time.Minute}, "the MinInterval 1m0s is above the Interval 30s"},
		{"interval above maximum", channel.Config{Interval: time.Minute, MaxInterval: time.Second}, "the Interval 1m0s is above the MaxInterval 1s"},
		{"maximum below default interval", channel.Config{MaxInterval: time.Second}, "the Interval 30s is above the MaxInterval 1s"},
		{"unknown policy", channel.Config{Policy: "fastest"}, `unknown Policy "fastest"`},
		{"interval of a nanosecond", channel.Config{Interval: 1}, "the Interval 1ns is below 10ms"},
		{"interval without its unit", channel.Config{Interval: 30, MinInterval: 5, MaxInterval: 300}, "the MinInterval 5ns is below 10ms"},
		{"floor of next to nothing", channel.Config{MinInterval: time.Microsecond}, "the MinInterval 1µs is below 10ms"},
		{"drain that a service config says too", channel.Config{
			DrainTimeout: 1, ServiceConfig: `{"loadBalancingConfig":[{"evenkeel_random":{"drainTimeout":"1s"}}]}`,
		}, "DrainTimeout is set, and ServiceConfig has a drainTimeout too"},
		{"drain with a policy of the service config that has none", channel.Config{
			DrainTimeout: 1, ServiceConfig: `{"loadBalancingConfig":[{"fastest":{}},{"round_robin":{}},{"evenkeel_random":{}}]}`,
		}, `the policy "round_robin" does not heed it`},
		{"drain with an old policy of the service config that has none", channel.Config{
			DrainTimeout: 1, ServiceConfig: `{"loadBalancingPolicy":"round_robin"}`,
		}, `the policy "round_robin" does not heed it`},
		{"drain with a policy that has none", channel.Config{Policy: "round_robin", DrainTimeout: 1}, "does not heed it"},
		{"service config that is no JSON", channel.Config{ServiceConfig: "{"}, "ServiceConfig: it is no JSON object"},
		{"service config that is a list", channel.Config{ServiceConfig: "[]"}, "ServiceConfig: it is no JSON object"},
		{"service config that is null", channel.Config{ServiceConfig: "null"}, "ServiceConfig: it is no JSON object"},
		{"service config with unknown policies", channel.Config{ServiceConfig: `{"loadBalancingConfig":[{"fastest":{}}]}`}, "no policy of it is known"},
		{"service config with two policies in one entry", channel.Config{
			ServiceConfig: `{"loadBalancingConfig":[{"a":{},"b":{}}]}`,
		}, "an entry names 2 policies"},
		{"service config with a bad policy", channel.Config{
			ServiceConfig: `{"loadBalancingConfig":[{"evenkeel_random":{"drainTimeout":"soon"}}]}`,
		}, "policy evenkeel_random"},
		{"service config with a bad method", channel.Config{ServiceConfig: `{"methodConfig":[{"name":[{}],"timeout":"soon"}]}`}, "ServiceConfig"},
		{"health said twice", channel.Config{HealthService: "a", ServiceConfig: `{"healthCheckConfig":{"serviceName":"b"}}`}, "healthCheckConfig too"},
		{"health that is not looked at", channel.Config{HealthService: "a", Policy: "pick_first"}, "pick_first does not look at it"},
		{"health that is not looked at, by the service config", channel.Config{
			ServiceConfig: `{"healthCheckConfig":{"serviceName":"b"},"loadBalancingPolicy":"pick_first"}`,
		}, "pick_first does not look at it"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, err := channel.New(test.config)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "channel config: ") {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
			if c != nil {
				t.Error("got a channel beside the error")
			}
		})
	}
}

func TestNewReportsAllFaults(t *testing.T) {
	t.Parallel()
	_, err := channel.New(channel.Config{DrainTimeout: -1, Policy: "fastest", Interval: time.Second, MinInterval: time.Minute})
	for _, want := range []string{"DrainTimeout", "fastest", "MinInterval"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to tell of %s", err, want)
		}
	}
}

func TestNewTakesGoodConfigs(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]channel.Config{
		"zero value":                   {},
		"interval below default floor": {Interval: time.Second},
		"interval above default limit": {Interval: time.Hour},
		"all equal":                    {Interval: time.Second, MinInterval: time.Second, MaxInterval: time.Second},
		"random":                       {Policy: channel.Random},
		"least request":                {Policy: channel.LeastRequest, DrainTimeout: 1500 * time.Millisecond},
		"the least intervals": {
			Interval: channel.LeastInterval, MinInterval: channel.LeastInterval, MaxInterval: channel.LeastInterval,
		},
		"a policy of ours in the service config": {
			Policy: "round_robin", DrainTimeout: 1, ServiceConfig: `{"loadBalancingPolicy":"evenkeel_random"}`,
		},
		"a policy of grpc-go":           {Policy: "round_robin", HealthService: "x"},
		"pick_first":                    {Policy: "pick_first"},
		"a service config of its own":   {ServiceConfig: `{"loadBalancingConfig":[{"fastest":{}},{"round_robin":{}}],"methodConfig":[]}`},
		"nothing in the service config": {ServiceConfig: `{}`},
		"null in the service config":    {ServiceConfig: `{"loadBalancingConfig":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := open(t, config)
			options := append(c.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))
			conn, err := grpc.NewClient("dns:///fleet.test", options...)
			if err != nil {
				t.Fatalf("grpc-go refuses the options: %v", err)
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestServiceConfigIsMerged(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		config Config
		want   string
		policy string
	}{
		{"nothing said", Config{}, `{"loadBalancingConfig":[{"evenkeel_round_robin":{}}]}`, RoundRobin},
		{
			"policy, drain and health",
			Config{Policy: LeastRequest, DrainTimeout: 1500 * time.Millisecond, HealthService: `a"b`},
			`{"loadBalancingConfig":[{"evenkeel_least_request":{"drainTimeout":"1.500000000s"}}],"healthCheckConfig":{"serviceName":"a\"b"}}`,
			LeastRequest,
		},
		{
			"methods are kept",
			Config{ServiceConfig: `{"methodConfig":[{"name":[{"service":"a"}],"waitForReady":true}],"retryThrottling":{"maxTokens":1,"tokenRatio":1}}`},
			`{"loadBalancingConfig":[{"evenkeel_round_robin":{}}],"methodConfig":[{"name":[{"service":"a"}],"waitForReady":true}],"retryThrottling":{"maxTokens":1,"tokenRatio":1}}`,
			RoundRobin,
		},
		{
			"the user's policy stays",
			Config{ServiceConfig: `{"loadBalancingConfig":[{"fastest":{}},{"round_robin":{}}]}`, HealthService: "a"},
			`{"loadBalancingConfig":[{"fastest":{}},{"round_robin":{}}],"healthCheckConfig":{"serviceName":"a"}}`, "round_robin",
		},
		{
			"the drain counts for our policies in a user's list",
			Config{
				DrainTimeout:  time.Second,
				ServiceConfig: `{"loadBalancingConfig":[{"fastest":{}},{"evenkeel_least_request":{"choiceCount":3,"drainTimeout":null}},{"evenkeel_random":{}},{"round_robin":{}}]}`,
			},
			`{"loadBalancingConfig":[{"fastest":{}},{"evenkeel_least_request":{"choiceCount":3,"drainTimeout":"1.000000000s"}},{"evenkeel_random":{"drainTimeout":"1.000000000s"}},{"round_robin":{}}]}`,
			LeastRequest,
		},
		{
			"the drain counts for a policy of ours in the old form",
			Config{DrainTimeout: time.Minute, ServiceConfig: `{"loadBalancingPolicy":"evenkeel_random"}`},
			`{"loadBalancingConfig":[{"evenkeel_random":{"drainTimeout":"60.000000000s"}}]}`, Random,
		},
		{
			"the user's drain stays",
			Config{ServiceConfig: `{"loadBalancingConfig":[{"evenkeel_random":{"drainTimeout":"7s"}}]}`},
			`{"loadBalancingConfig":[{"evenkeel_random":{"drainTimeout":"7s"}}]}`, Random,
		},
		{
			"the user's old form stays",
			Config{ServiceConfig: `{"loadBalancingPolicy":"round_robin"}`},
			`{"loadBalancingPolicy":"round_robin"}`, "round_robin",
		},
		{
			"an unknown name in the old form is pick_first",
			Config{ServiceConfig: `{"loadBalancingPolicy":"fastest"}`},
			`{"loadBalancingPolicy":"fastest"}`, "pick_first",
		},
		{
			"the user's health stays",
			Config{ServiceConfig: `{"healthCheckConfig":{"serviceName":"b"}}`},
			`{"loadBalancingConfig":[{"evenkeel_round_robin":{}}],"healthCheckConfig":{"serviceName":"b"}}`, RoundRobin,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := newServiceConfig(test.config.withDefaults())
			if err != nil {
				t.Fatal(err)
			}
			sameJSON(t, got.json(), test.want)
			if name, err := got.policy(); name != test.policy || err != nil {
				t.Errorf("got policy %q, %v, want %q", name, err, test.policy)
			}
		})
	}
}

func TestServiceConfigOfDNSGoesBeforeOurs(t *testing.T) {
	t.Parallel()
	ours := serviceConfig{fieldPolicy: json.RawMessage(`[{"evenkeel_random":{}}]`), fieldHealth: json.RawMessage(`{"serviceName":"a"}`)}
	tests := []struct{ name, given, want string }{
		{"nothing", `{}`, `{"loadBalancingConfig":[{"evenkeel_random":{}}],"healthCheckConfig":{"serviceName":"a"}}`},
		{"methods", `{"methodConfig":[]}`, `{"loadBalancingConfig":[{"evenkeel_random":{}}],"healthCheckConfig":{"serviceName":"a"},"methodConfig":[]}`},
		{"policy", `{"loadBalancingConfig":[{"round_robin":{}}]}`, `{"loadBalancingConfig":[{"round_robin":{}}],"healthCheckConfig":{"serviceName":"a"}}`},
		{"policy in the old form", `{"loadBalancingPolicy":"round_robin"}`, `{"loadBalancingPolicy":"round_robin","healthCheckConfig":{"serviceName":"a"}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			given, err := parseServiceConfig(test.given)
			if err != nil {
				t.Fatal(err)
			}
			sameJSON(t, ours.with(given).json(), test.want)
			if len(ours) != 2 {
				t.Error("the config that was merged into has changed")
			}
		})
	}
}

func TestDrainOfAServiceConfigOfDNS(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, given, want string }{
		{"a policy of ours", `[{"evenkeel_random":{}}]`, `[{"evenkeel_random":{"drainTimeout":"0.500000000s"}}]`},
		{"one with its own", `[{"evenkeel_random":{"drainTimeout":"9s"}}]`, `[{"evenkeel_random":{"drainTimeout":"9s"}}]`},
		{"one of others", `[{"round_robin":{}}]`, `[{"round_robin":{}}]`},
		{"what cannot be read", `[{"evenkeel_random":7}]`, `[{"evenkeel_random":7}]`},
		{"no list", `{}`, `{}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			given := serviceConfig{fieldPolicy: json.RawMessage(test.given)}
			sameJSON(t, given.withDrain(500*time.Millisecond).json(), `{"loadBalancingConfig":`+test.want+`}`)
			sameJSON(t, given.json(), `{"loadBalancingConfig":`+test.given+`}`)
			sameJSON(t, given.withDrain(0).json(), `{"loadBalancingConfig":`+test.given+`}`)
		})
	}
}

func TestChoiceOfAServiceConfig(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	quoted, err := json.Marshal(host)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, list string
		want       string // empty means none
	}{
		{"no entry", `[]`, ""},
		{"entry without conditions", `[{"serviceConfig":{"a":1}}]`, `{"a":1}`},
		{"the first of several", `[{"serviceConfig":{"a":1}},{"serviceConfig":{"a":2}}]`, `{"a":1}`},
		{"language", `[{"clientLanguage":["java"],"serviceConfig":{"a":1}},{"clientLanguage":["c++","GO"],"serviceConfig":{"a":2}}]`, `{"a":2}`},
		{"language in lower case", `[{"clientLanguage":["go"],"serviceConfig":{"a":1}}]`, `{"a":1}`},
		{"no language", `[{"clientLanguage":[],"serviceConfig":{"a":1}}]`, ""},
		{"share below the roll", `[{"percentage":49,"serviceConfig":{"a":1}}]`, ""},
		{"share at the roll", `[{"percentage":50,"serviceConfig":{"a":1}}]`, `{"a":1}`},
		{"nobody", `[{"percentage":0,"serviceConfig":{"a":1}}]`, ""},
		{"this host", `[{"clientHostName":["other",` + string(quoted) + `],"serviceConfig":{"a":1}}]`, `{"a":1}`},
		{"another host", `[{"clientHostName":["other"],"serviceConfig":{"a":1}}]`, ""},
		{"entry without a config", `[{"percentage":100},{"serviceConfig":{"a":2}}]`, `{"a":2}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := chooseConfig(test.list, 50)
			switch {
			case err != nil:
				t.Fatal(err)
			case test.want == "" && got != nil:
				t.Errorf("got %s, want none", got.json())
			case test.want != "":
				sameJSON(t, got.json(), test.want)
			}
		})
	}
	for _, bad := range []string{``, `{`, `{}`, `[1]`, `[{"serviceConfig":[]}]`, `[{"percentage":"a"}]`} {
		if got, err := chooseConfig(bad, 50); err == nil {
			t.Errorf("got %v of %q, want an error", got, bad)
		}
	}
}

func FuzzChooseConfig(f *testing.F) {
	for _, seed := range []string{``, `[]`, `[{"serviceConfig":{"a":1}}]`, `[{"clientLanguage":["go"],"percentage":3,"clientHostName":[],"serviceConfig":null}]`} {
		f.Add(seed, 7)
	}
	f.Fuzz(func(t *testing.T, list string, roll int) {
		config, err := chooseConfig(list, roll)
		if config != nil && err != nil {
			t.Errorf("got %v and an error", config)
		}
		if config == nil {
			return
		}
		if _, err := parseServiceConfig(config.json()); err != nil {
			t.Errorf("the config does not read back: %v", err)
		}
		_, _ = config.policy() // must not panic
	})
}

// sameJSON compares what two texts mean.
func sameJSON(t *testing.T, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatalf("got %s: %v", got, err)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("want %s: %v", want, err)
	}
	if diff := cmp.Diff(w, g); diff != "" {
		t.Errorf("got another service config (-want +got):\n%s", diff)
	}
}

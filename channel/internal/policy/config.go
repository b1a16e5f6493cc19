// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/serviceconfig"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
)

// The names of the policies in a service config.
const (
	RoundRobin   = "evenkeel_round_robin"
	Random       = "evenkeel_random"
	LeastRequest = "evenkeel_least_request"
)

const (
	defaultDrain   = 30 * time.Second
	defaultChoices = 2
	maxChoices     = 10 // as gRFC A48 has it
)

var (
	errNegativeDrain = errors.New("drainTimeout is negative")
	errFewChoices    = errors.New("choiceCount is below 2")
)

//nolint:gochecknoglobals // grpc-go's registry belongs to the process, so what is done once for it does too
var register sync.Once

// Register puts the three policies into grpc-go's registry, once. It must be called from an init function: the registry
// takes no lock.
func Register() {
	register.Do(func() {
		balancer.Register(builder{name: RoundRobin})
		balancer.Register(builder{name: Random})
		balancer.Register(builder{name: LeastRequest})
	})
}

// config is what the JSON of a policy says.
type config struct {
	serviceconfig.LoadBalancingConfig

	drain   time.Duration
	choices int
}

func defaultConfig() *config { return &config{drain: defaultDrain, choices: defaultChoices} }

// parseConfig reads the JSON of a policy. Fields that it does not know are left alone, as gRPC wants it.
func parseConfig(text json.RawMessage) (*config, error) {
	var fields struct {
		DrainTimeout json.RawMessage `json:"drainTimeout"`
		ChoiceCount  *uint32         `json:"choiceCount"`
	}
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	parsed := defaultConfig()
	if drain, err := parseDuration(fields.DrainTimeout); err != nil {
		return nil, err
	} else if drain > 0 {
		parsed.drain = drain
	}
	if fields.ChoiceCount != nil {
		if *fields.ChoiceCount < defaultChoices {
			return nil, errFewChoices
		}
		parsed.choices = int(min(*fields.ChoiceCount, maxChoices))
	}
	return parsed, nil
}

// MarshalJSON writes what parseConfig reads: the policy of xDS that chooses localities hands the config on as text.
func (c *config) MarshalJSON() ([]byte, error) {
	drain, err := protojson.Marshal(durationpb.New(c.drain))
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"drainTimeout": json.RawMessage(drain), "choiceCount": c.choices})
}

// parseDuration reads a duration as protobuf writes it in JSON, "1.5s"; nothing and null are 0.
func parseDuration(text json.RawMessage) (time.Duration, error) {
	if len(text) == 0 || string(text) == "null" {
		return 0, nil
	}
	var read durationpb.Duration
	if err := protojson.Unmarshal(text, &read); err != nil {
		return 0, fmt.Errorf("drainTimeout is not a duration such as %q", "30s")
	}
	if read.AsDuration() < 0 {
		return 0, errNegativeDrain
	}
	return read.AsDuration(), nil
}

// builder makes a policy.
type builder struct{ name string }

// Name is the policy's name in a service config.
func (b builder) Name() string { return b.name }

// ParseConfig reads the policy's part of a service config.
func (b builder) ParseConfig(text json.RawMessage) (serviceconfig.LoadBalancingConfig, error) {
	parsed, err := parseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("config of %s: %w", b.name, err)
	}
	return parsed, nil
}

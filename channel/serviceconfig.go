// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // without it grpc-go silently watches no health
)

const (
	fieldPolicy  = "loadBalancingConfig"
	fieldOldName = "loadBalancingPolicy" // what stood for the policy before there was a loadBalancingConfig
	fieldHealth  = "healthCheckConfig"
)

// serviceConfig is a service config by its top-level fields. It is never written to.
type serviceConfig map[string]json.RawMessage

// newServiceConfig makes the service config of a channel: the user's, and what it does not say.
func newServiceConfig(config Config) (serviceConfig, error) {
	ours := serviceConfig{fieldPolicy: policyJSON(config)}
	if config.HealthService != "" {
		ours[fieldHealth] = health(config.HealthService)
	}
	merged := ours
	if config.ServiceConfig != "" {
		given, err := parseServiceConfig(config.ServiceConfig)
		if err != nil {
			return nil, fmt.Errorf("ServiceConfig: %w", err)
		}
		if _, both := given[fieldHealth]; both && config.HealthService != "" {
			return nil, errors.New("HealthService is set, and ServiceConfig has a healthCheckConfig too")
		}
		if config.DrainTimeout > 0 && given.saysDrain() {
			return nil, errors.New("DrainTimeout is set, and ServiceConfig has a drainTimeout too")
		}
		merged = ours.with(given)
	}
	merged = merged.withDrain(config.DrainTimeout)
	name, err := merged.policy()
	switch {
	case err != nil:
		return nil, fmt.Errorf("ServiceConfig: %w", err)
	case config.DrainTimeout > 0 && !isOurs(name):
		return nil, fmt.Errorf("DrainTimeout is set, and the policy %q does not heed it", name)
	}
	if _, watched := merged[fieldHealth]; watched && name == "pick_first" {
		return nil, errors.New("health is to be watched, and the policy pick_first does not look at it")
	}
	return merged, merged.check()
}

// check has grpc-go itself read the config. It has no function for that; a channel that is never used makes no
// connection.
func (s serviceConfig) check() error {
	conn, err := grpc.NewClient("passthrough:///check",
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(s.json()))
	if err != nil {
		return fmt.Errorf("ServiceConfig: %w", err)
	}
	return conn.Close()
}

// policyJSON is the loadBalancingConfig of a policy by name.
func policyJSON(config Config) json.RawMessage {
	return json.RawMessage("[{" + strconv.Quote(config.Policy) + ":{}}]")
}

func health(service string) json.RawMessage {
	name, _ := json.Marshal(service) //nolint:errchkjson // a string can always be written
	return json.RawMessage(`{"serviceName":` + string(name) + "}")
}

// parseServiceConfig reads the top level of a service config. Its errors quote no more than a character of it.
func parseServiceConfig(text string) (serviceConfig, error) {
	var fields serviceConfig
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		return nil, fmt.Errorf("it is no JSON object: %w", err)
	}
	if fields == nil {
		return nil, errors.New("it is no JSON object")
	}
	maps.DeleteFunc(fields, func(_ string, value json.RawMessage) bool { return bytes.Equal(value, []byte("null")) })
	return fields, nil
}

// with returns the config with the fields of another one put before its own.
func (s serviceConfig) with(other serviceConfig) serviceConfig {
	merged := maps.Clone(s)
	_, hasPolicy := other[fieldPolicy]
	_, hasName := other[fieldOldName]
	if hasPolicy || hasName {
		delete(merged, fieldPolicy)
		delete(merged, fieldOldName)
	}
	maps.Copy(merged, other)
	return merged
}

// health returns the name of the service whose health is to be watched.
func (s serviceConfig) health() string {
	var of struct {
		ServiceName string `json:"serviceName"`
	}
	if err := json.Unmarshal(s[fieldHealth], &of); err != nil {
		return "" // there is none: grpc-go has read it already
	}
	return of.ServiceName
}

// json returns the config as text; equal configs have equal texts.
func (s serviceConfig) json() string {
	text, err := json.Marshal(s)
	if err != nil {
		return "{}" // not reached: the fields were read from JSON or written by us
	}
	return string(text)
}

// policy returns the name of the policy that grpc-go will take: the first of the list that it knows. What it refuses is
// an error.
func (s serviceConfig) policy() (string, error) {
	if s[fieldPolicy] == nil {
		return s.oldPolicy()
	}
	list, err := s.policies()
	if err != nil {
		return "", err
	}
	for _, entry := range list {
		if len(entry) != 1 {
			return "", fmt.Errorf("%s: an entry names %d policies, want 1", fieldPolicy, len(entry))
		}
		for name, config := range entry {
			builder := balancer.Get(name)
			if builder == nil {
				continue
			}
			return name, checkPolicy(builder, config)
		}
	}
	return "", fmt.Errorf("%s: no policy of it is known", fieldPolicy)
}

// policies returns the policies of the list, each with its config.
func (s serviceConfig) policies() ([]map[string]json.RawMessage, error) {
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(s[fieldPolicy], &list); err != nil {
		return nil, fmt.Errorf("%s: %w", fieldPolicy, err)
	}
	return list, nil
}

func (s serviceConfig) oldPolicy() (string, error) {
	var name string
	if err := json.Unmarshal(s[fieldOldName], &name); err != nil {
		return "", fmt.Errorf("%s: %w", fieldOldName, err)
	}
	if balancer.Get(name) == nil {
		return "pick_first", nil // as grpc-go has it
	}
	return name, nil
}

// checkPolicy lets the policy itself say whether its config will do.
func checkPolicy(builder balancer.Builder, config json.RawMessage) error {
	parser, ok := builder.(balancer.ConfigParser)
	if !ok {
		return nil
	}
	if _, err := parser.ParseConfig(config); err != nil {
		return fmt.Errorf("%s: policy %s: %w", fieldPolicy, builder.Name(), err)
	}
	return nil
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"
)

// fieldDrain is the drain deadline in the config of our policies.
const fieldDrain = "drainTimeout"

// withDrain returns the config with a drain deadline for each policy of ours that has none of its own; 0 changes nothing.
// What cannot be read is left for others to refuse.
func (s serviceConfig) withDrain(drain time.Duration) serviceConfig {
	list := s.ownPolicies()
	if drain <= 0 || list == nil {
		return s
	}
	for _, entry := range list {
		for name, own := range entry {
			if fields, ok := drainless(name, own); ok {
				fields[fieldDrain] = json.RawMessage(strconv.Quote(seconds(drain)))
				entry[name] = text(fields)
			}
		}
	}
	merged := maps.Clone(s)
	delete(merged, fieldOldName)
	merged[fieldPolicy] = text(list)
	return merged
}

// saysDrain says whether a policy of ours has a drain deadline of its own.
func (s serviceConfig) saysDrain() bool {
	for _, entry := range s.ownPolicies() {
		for name, own := range entry {
			if _, without := drainless(name, own); isOurs(name) && !without {
				return true
			}
		}
	}
	return false
}

// ownPolicies returns the list of policies, of which one in the old form is one with nothing to say; nil when there is
// none that could be ours.
func (s serviceConfig) ownPolicies() []map[string]json.RawMessage {
	if s[fieldPolicy] != nil {
		list, err := s.policies()
		if err != nil {
			return nil
		}
		return list
	}
	if name, err := s.oldPolicy(); err == nil && isOurs(name) {
		return []map[string]json.RawMessage{{name: json.RawMessage("{}")}}
	}
	return nil
}

// drainless returns the config of a policy of ours that says nothing of the drain deadline.
func drainless(name string, own json.RawMessage) (map[string]json.RawMessage, bool) {
	if !isOurs(name) {
		return nil, false
	}
	fields := make(map[string]json.RawMessage)
	if err := json.Unmarshal(own, &fields); err != nil || fields == nil {
		return nil, false
	}
	said, has := fields[fieldDrain]
	return fields, !has || string(said) == "null"
}

// seconds is a duration as protobuf has it in JSON.
func seconds(d time.Duration) string {
	return fmt.Sprintf("%d.%09ds", d/time.Second, d%time.Second)
}

// text writes what was read from JSON.
func text(v any) json.RawMessage {
	written, err := json.Marshal(v)
	if err != nil {
		return nil // not reached, as above
	}
	return written
}

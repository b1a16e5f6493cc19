// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
)

const (
	txtPrefix    = "_grpc_config."
	txtAttribute = "grpc_config="
	// txtWait is how long the first set of endpoints waits for the first answer about the service config.
	txtWait = 500 * time.Millisecond
)

// txtEnabled says whether service configs of DNS count in this process, as grpc-go reads it.
func txtEnabled() bool {
	return !strings.EqualFold(os.Getenv("GRPC_ENABLE_TXT_SERVICE_CONFIG"), "false")
}

// txtSource is a source that looks a service config up beside its endpoints. It never makes a lookup fail, and only the
// first one late, by txtWait at most: a later answer counts from the next lookup on, which it asks for.
type txtSource struct {
	discover.Resolver // of the endpoints
	label

	lookUp func(ctx context.Context) (serviceConfig, error)
	failed func(error) // is told why there is no answer
	late   func()      // is told that an answer came when nobody waited any more

	mu      sync.Mutex
	current serviceConfig // guarded by mu; nil when DNS has none
	known   bool          // guarded by mu: there was an answer, if only that there is none
	asking  chan struct{} // guarded by mu; closed when the lookup under way has ended; nil when there is none
}

// Resolve implements discover.Resolver.
func (s *txtSource) Resolve(ctx context.Context) ([]discover.Endpoint, error) {
	asked, waits := s.ask(ctx)
	endpoints, err := s.Resolver.Resolve(ctx)
	if len(endpoints) == 0 || !waits {
		return endpoints, err
	}
	limit := time.NewTimer(txtWait)
	defer limit.Stop()
	select {
	case <-asked:
	case <-limit.C:
	case <-ctx.Done():
	}
	return endpoints, err
}

// ask begins a lookup where none is under way. It says whether this is the first one, which is worth waiting for. The
// lookup goes on after the resolution has ended, and ends with the resolver.
func (s *txtSource) ask(ctx context.Context) (<-chan struct{}, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.known && s.asking == nil
	if s.asking == nil {
		asking := make(chan struct{})
		s.asking = asking
		go s.run(context.WithoutCancel(ctx), asking)
	}
	return s.asking, first
}

func (s *txtSource) run(ctx context.Context, asking chan struct{}) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	config, err := s.lookUp(ctx)
	s.mu.Lock()
	changed := err == nil && config.json() != s.current.json()
	if err == nil {
		s.current = config
	}
	s.known, s.asking = true, nil
	s.mu.Unlock()
	close(asking)
	switch {
	case err != nil:
		s.failed(err)
	case changed && time.Since(began) > txtWait/2:
		s.late()
	}
}

func (s *txtSource) get() serviceConfig {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// txtLookup looks up the service config of one name.
type txtLookup struct {
	name     string
	resolver *net.Resolver
	roll     int // of 1 to 100, one for the channel: which share of the clients it belongs to does not change
}

func newTXTLookup(name, nameServer string, system *net.Resolver, roll int) txtLookup {
	l := txtLookup{name: txtPrefix + name, resolver: system, roll: roll}
	if nameServer != "" {
		l.resolver = serverResolver(nameServer)
	}
	return l
}

// get returns nil and no error where there is no service config.
func (l txtLookup) get(ctx context.Context) (serviceConfig, error) {
	records, err := l.resolver.LookupTXT(ctx, l.name)
	if failure, ok := errors.AsType[*net.DNSError](err); ok && failure.IsNotFound {
		return nil, nil //nolint:nilnil // that there is none is an answer
	}
	if err != nil {
		return nil, fmt.Errorf("look up the service config: %w", err)
	}
	slices.Sort(records) // name servers rotate them
	for _, record := range records {
		if list, ok := strings.CutPrefix(record, txtAttribute); ok {
			return chooseConfig(list, l.roll)
		}
	}
	return nil, nil //nolint:nilnil // that there is none is an answer
}

// choice is one entry of the list in a TXT record (gRFC A2).
type choice struct {
	ClientLanguage *[]string       `json:"clientLanguage"`
	Percentage     *int            `json:"percentage"`
	ClientHostName *[]string       `json:"clientHostName"`
	ServiceConfig  json.RawMessage `json:"serviceConfig"`
}

// chooseConfig returns the config of the first entry that is meant for this client.
func chooseConfig(list string, roll int) (serviceConfig, error) {
	var choices []choice
	if err := json.Unmarshal([]byte(list), &choices); err != nil {
		return nil, fmt.Errorf("service config of DNS: it is no list of choices: %w", err)
	}
	host, err := os.Hostname()
	for _, c := range choices {
		switch {
		case c.ClientLanguage != nil && !slices.ContainsFunc(*c.ClientLanguage, isGo),
			c.Percentage != nil && roll > *c.Percentage,
			c.ClientHostName != nil && (err != nil || !slices.Contains(*c.ClientHostName, host)),
			c.ServiceConfig == nil:
			continue
		}
		config, err := parseServiceConfig(string(c.ServiceConfig))
		if err != nil {
			return nil, fmt.Errorf("service config of DNS: %w", err)
		}
		return config, nil
	}
	return nil, nil //nolint:nilnil // that none is meant for this client is an answer
}

func isGo(language string) bool { return strings.EqualFold(language, "go") }

// serverResolver asks one name server, host[:port].
func serverResolver(server string) *net.Resolver {
	if _, _, err := net.SplitHostPort(server); err != nil {
		server += ":53"
	}
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, network, server)
		if err != nil {
			return nil, err
		}
		// Without this, net.Resolver reads on after the context was cancelled.
		context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
		return conn, nil
	}
	return &net.Resolver{PreferGo: true, Dial: dial}
}

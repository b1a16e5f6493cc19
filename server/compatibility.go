// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
)

// Bounds of the comparisons with what clients need. Anybody may ask for one, with a descriptor set of 4 MiB.
const (
	maxComparisons        = 4 // at a time, and not more than there are processors
	maxWaitingComparisons = 16
	maxRulings            = 64 // remembered: a fleet sends the same bytes a thousand times
)

// offer is what a server serves, as far as it has said so.
type offer struct {
	contract *contract.Contract
	extent   contract.Extent
	schema   string // empty when nothing was declared
	turns    chan struct{}
	waiting  atomic.Int64

	mu      sync.Mutex
	rulings map[setSum]*ruling // guarded by mu
}

// setSum is the digest of a descriptor set.
type setSum = [sha256.Size]byte

// ruling is what was found for a descriptor set, or is being found.
type ruling struct {
	done    chan struct{} // closed when the rest is set
	missing []string
	err     error // a status; the comparison was not made
}

// newOffer puts together what was declared and what a registry serves anyway. Of the host service it serves a part only:
// that is not held against clients that have all of it, unless the contract is said to be complete.
func newOffer(config RegistryConfig) *offer {
	o := &offer{
		turns:   make(chan struct{}, min(maxComparisons, runtime.GOMAXPROCS(0))),
		rulings: make(map[setSum]*ruling),
	}
	contracts := []*contract.Contract{config.Contract, contract.Connections()}
	if config.ContractComplete {
		o.extent = contract.AllServices
		contracts = append(contracts, contract.Host())
	}
	o.contract = contract.Overlay(contracts...)
	if config.Contract != nil {
		o.schema = schemaOf(config)
	}
	return o
}

// schemaOf returns the text of all that a server serves.
func schemaOf(config RegistryConfig) string {
	var texts []string
	for i, c := range []*contract.Contract{config.Contract, contract.Connections(), contract.Host()} {
		if i > 0 && (len(c.Services()) == 0 || config.Contract.Has(c.Services()[0])) {
			continue // it was declared
		}
		text, err := c.Schema()
		if err != nil {
			config.Logger.Warn("the declared contract has no text, GetDescriptorSet will not be answered", slog.Any("error", err))
			return ""
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "\n")
}

// GetDescriptorSet answers with the text of the declared contract. It is anonymous.
func (s *connectionService) GetDescriptorSet(ctx context.Context, request *emptypb.Empty) (*clientspb.DescriptorSetResponse, error) {
	if s.registry.offer.schema == "" {
		return s.UnimplementedConnectionServiceServer.GetDescriptorSet(ctx, request)
	}
	return &clientspb.DescriptorSetResponse{SchemaDefinition: s.registry.offer.schema}, nil
}

// CheckCompatibility says whether the server serves what a client needs. It is anonymous: who cannot talk to the server
// is to learn that, rather than that he is a stranger.
func (s *connectionService) CheckCompatibility(
	ctx context.Context, request *clientspb.CompatibilityRequest,
) (*clientspb.CompatibilityResponse, error) {
	missing, err := s.registry.offer.missing(ctx, request.GetDescriptorSet())
	if err != nil {
		return nil, err
	}
	config := &s.registry.config
	if len(missing) > 0 {
		config.Logger.Debug("a client needs what this server does not serve",
			slog.String("type", contract.Plain(request.GetClientType())),
			slog.String("version", contract.Plain(request.GetClientVersion())),
			slog.String("protocol", contract.Plain(request.GetProtocolVersion())),
			slog.String("first", missing[0]), slog.Int("missing", len(missing)))
	}
	return &clientspb.CompatibilityResponse{
		IsCompatible: len(missing) == 0, Incompatibilities: missing,
		ServerVersion: config.Version, ServerProtocolVersion: config.ProtocolVersion,
	}, nil
}

// missing compares a client's descriptor set with the offer. Clients that send the same bytes share one comparison.
func (o *offer) missing(ctx context.Context, set []byte) ([]string, error) {
	sum := sha256.Sum256(set)
	for {
		v, mine := o.claim(sum)
		if mine {
			o.decide(ctx, v, sum, set)
			return v.missing, v.err
		}
		select {
		case <-v.done:
		case <-ctx.Done():
			return nil, statusOfContext(ctx)
		}
		if v.err == nil || status.Code(v.err) == codes.ResourceExhausted {
			return v.missing, v.err
		} // else the client that was first has gone
	}
}

// claim returns the ruling on a descriptor set, and whether it is the caller who has to decide it.
func (o *offer) claim(sum setSum) (v *ruling, mine bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if v := o.rulings[sum]; v != nil {
		return v, false
	}
	if len(o.rulings) >= maxRulings {
		clear(o.rulings) // there are not so many kinds of clients: somebody is playing
	}
	v = &ruling{done: make(chan struct{})}
	o.rulings[sum] = v
	return v, true
}

// decide makes the comparison when it is its turn. One that was not made is not remembered.
func (o *offer) decide(ctx context.Context, v *ruling, sum setSum, set []byte) {
	defer close(v.done)
	if v.err = o.turn(ctx); v.err == nil {
		defer func() { <-o.turns }()
		v.missing = o.compare(set)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.rulings[sum] == v {
		delete(o.rulings, sum)
	}
}

// compare says what is not served of a contract that anybody may have sent.
func (o *offer) compare(set []byte) []string {
	needed, err := contract.Parse(set)
	if err != nil {
		return []string{contract.Plain("the client's descriptor set is of no use: " + err.Error())}
	}
	return contract.Compare(needed, o.contract, o.extent).Lines()
}

// turn waits until a comparison may begin. The memory of those that wait is bounded by their number.
func (o *offer) turn(ctx context.Context) error {
	defer o.waiting.Add(-1)
	if o.waiting.Add(1) > maxWaitingComparisons {
		return status.Error(codes.ResourceExhausted, "too many compatibility checks at a time")
	}
	select {
	case o.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return statusOfContext(ctx)
	}
}

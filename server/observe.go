// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"cmp"
	"context"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
)

// ObserveConnectedClients sends the list of clients now and after each change, at most once in each interval. That a client
// was heard of is no change. To an observer that reads slowly the changes in between are lost, the newest list is not.
func (s *connectionService) ObserveConnectedClients(
	_ *emptypb.Empty, stream grpc.ServerStreamingServer[clientspb.IEnumerable_ConnectedClient],
) error {
	r := s.registry
	if r.observers.Add(1) > int64(r.config.MaxObservers) {
		r.observers.Add(-1)
		return status.Error(codes.ResourceExhausted, "too many observers of connected clients")
	}
	defer r.observers.Add(-1)
	ctx := stream.Context()
	o := &observer{
		registry: r, stream: stream, out: newOutbox(stream, r),
		cluster: r.peers != nil && !wantsLocal(ctx), seed: maphash.MakeSeed(),
	}
	err := o.run(ctx)
	if err == nil {
		return s.endStream(stream, r.phase().reason())
	}
	return err
}

// observer is one stream of ObserveConnectedClients.
type observer struct {
	registry *Registry
	stream   grpc.ServerStream
	out      *outbox
	cluster  bool // it sees the clients of the peers, too

	seed maphash.Seed
	last uint64 // hash of the list that was sent last
	sent bool   // there is one
}

// run sends lists until the client leaves or does not read, or, with nil, until the server has come to its end.
func (o *observer) run(ctx context.Context) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		// A change after this point ends the wait below, one before it is in the list.
		changed := o.registry.nextChange()
		if err := o.look(ctx); err != nil {
			return err
		}
		pause.Reset(o.registry.config.ObserveInterval)
		if over, err := await(ctx, o.registry.empty, pause.C); over {
			return err
		}
		// Peers do not tell of changes, they are asked in each interval.
		if o.cluster {
			continue
		}
		if over, err := await(ctx, o.registry.empty, changed); over {
			return err
		}
	}
}

// await waits for an event. It reports true when the stream is to end instead: because the server has come to its end, or,
// with a status, because the client has left.
func await[T any](ctx context.Context, end <-chan struct{}, event <-chan T) (over bool, err error) {
	select {
	case <-event:
		return false, nil
	case <-end:
		return true, nil
	case <-ctx.Done():
		return true, statusOfContext(ctx)
	}
}

// look sends the list if it is another one than before. Which peers do not answer is told with the first one only, since
// that is when there are headers.
func (o *observer) look(ctx context.Context) error {
	items, header := o.registry.view(ctx, o.registry.config.ObserveInterval/2)
	if !o.sent && header.Len() > 0 {
		if err := o.stream.SetHeader(header); err != nil {
			return err // made by grpc-go, and a status already
		}
	}
	hash := hashClients(o.seed, items)
	if o.sent && hash == o.last {
		return nil
	}
	o.sent, o.last = true, hash
	return o.out.send(ctx, &clientspb.IEnumerable_ConnectedClient{Items: items})
}

// sortClients orders a list by connection id.
func sortClients(items []*clientspb.ConnectedClient) {
	slices.SortFunc(items, func(a, b *clientspb.ConnectedClient) int {
		return cmp.Or(cmp.Compare(a.GetConnectionId(), b.GetConnectionId()), cmp.Compare(a.GetSiloAddress(), b.GetSiloAddress()))
	})
}

// hashClients tells whether two lists differ in more than in when their clients were last heard of. It stands for a copy
// of the list, which may be long.
func hashClients(seed maphash.Seed, items []*clientspb.ConnectedClient) uint64 {
	var hash maphash.Hash
	hash.SetSeed(seed)
	var number [8]byte
	add := func(text string) {
		binary.LittleEndian.PutUint64(number[:], uint64(len(text)))
		_, _ = hash.Write(number[:]) // never fails
		_, _ = hash.WriteString(text)
	}
	for _, c := range items {
		for _, text := range []string{
			c.GetConnectionId(), c.GetVersion(), c.GetSiloAddress(), c.GetProcessPath(), c.GetMachineName(), c.GetClientType(),
		} {
			add(text)
		}
		binary.LittleEndian.PutUint64(number[:], uint64(uint32(c.GetProcessId())))
		if c.GetIsRunningWithDebugger() {
			number[7] = 1
		}
		_, _ = hash.Write(number[:])
	}
	return hash.Sum64()
}

// nextChange returns a channel that is closed when a client comes or goes.
func (r *Registry) nextChange() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed
}

// noteChangeLocked wakes the observers. Where there are none it costs nothing.
func (r *Registry) noteChangeLocked() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

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
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
)

// ObserveConnectedClients sends the list of clients now and after each change, at most once in each interval. That a client
// was heard of is no change. To an observer that reads slowly the changes in between are lost, the newest list is not.
func (s *connectionService) ObserveConnectedClients(
	_ *emptypb.Empty, stream grpc.ServerStreamingServer[clientspb.IEnumerable_ConnectedClient],
) error {
	r, ctx := s.registry, stream.Context()
	from := sourceOfCall(ctx)
	if !r.observers.enter(from) {
		return status.Error(codes.ResourceExhausted, "too many observers of connected clients")
	}
	defer r.observers.leave(from)
	uncompressed(ctx)
	o := &observer{registry: r, stream: stream, out: newOutbox(stream, r), seed: maphash.MakeSeed()}
	if r.peers != nil && !wantsLocal(ctx) {
		o.theirs = r.peers.overview
		o.theirs.join()
		defer o.theirs.leave()
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
	theirs   *overview // the clients of the peers; nil when it does not see them

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
		changed, news := o.registry.changed.next(), o.theirs.next()
		if err := o.look(ctx); err != nil {
			return err
		}
		pause.Reset(o.registry.config.ObserveInterval)
		if over, err := await(ctx, o.registry.empty, pause.C, nil); over {
			return err
		}
		if over, err := await(ctx, o.registry.empty, changed, news); over {
			return err
		}
	}
}

// await waits for one of two events. It reports true when the stream is to end instead: because the server has come to its
// end, or, with a status, because the client has left.
func await[T any](ctx context.Context, end <-chan struct{}, event <-chan T, other <-chan struct{}) (over bool, err error) {
	select {
	case <-event:
		return false, nil
	case <-other:
		return false, nil
	case <-end:
		return true, nil
	case <-ctx.Done():
		return true, statusOfContext(ctx)
	}
}

// look sends the list if it is another one than before. Which peers are known to fail is told with the first one only,
// since that is when there are headers.
func (o *observer) look(ctx context.Context) error {
	items, header := o.view(ctx)
	if !o.sent {
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

// view is the list as far as it is known now: nobody is asked or waited for.
func (o *observer) view(ctx context.Context) ([]*clientspb.ConnectedClient, metadata.MD) {
	items := o.registry.connectedClients()
	var header metadata.MD
	switch {
	case wantsLocal(ctx):
		header = o.registry.localHeader()
	case o.theirs != nil:
		theirs, failures := o.theirs.known()
		items, header = append(items, theirs...), failureHeader(failures)
	}
	sortClients(items)
	return items, header
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

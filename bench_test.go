// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"github.com/evenkeel-go/evenkeel"
)

// stubConn answers every call at once, so that what is left is the cost of the layer above it.
type stubConn struct{ calls int }

func (s *stubConn) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	s.calls++
	return nil
}

func (s *stubConn) NewStream(
	context.Context, *grpc.StreamDesc, string, ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return nil, nil
}

// BenchmarkUnary compares a unary call through a Conn with the same call on the connection under it.
func BenchmarkUnary(b *testing.B) {
	const method = "/Cratis.Chronicle.Contracts.Host.Server/GetVersionInfo"
	ctx := b.Context()
	for _, bm := range []struct {
		name string
		conn grpc.ClientConnInterface
	}{
		{"conn=stub", &stubConn{}},
		{"conn=evenkeel", evenkeel.NewReadyForTest(&stubConn{})},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := bm.conn.Invoke(ctx, method, nil, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestAUnaryCallAllocatesNothingOfItsOwn(t *testing.T) {
	conn := evenkeel.NewReadyForTest(&stubConn{})
	ctx := t.Context()
	allocs := testing.AllocsPerRun(1000, func() {
		if err := conn.Invoke(ctx, "/service/method", nil, nil); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("a unary call through Conn allocates %v times, want 0", allocs)
	}
}

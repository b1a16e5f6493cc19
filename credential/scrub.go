// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package credential

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/evenkeel-go/evenkeel/internal/secretform"
)

// A server knows what it was sent, and may write it into the status of a call, from where it would get into logs.

// maxStatus bounds what is kept of the status of a call, which is all that is looked at.
const maxStatus = 64 << 10

// scrubError takes secrets out of the error of a call. The details of a status that shows one are dropped, as are those of
// one that is longer than 64 KiB, of whose message the beginning is kept.
func scrubError(err error, secrets []string) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	s, ok := status.FromError(err)
	if !ok {
		if text := err.Error(); len(text) > maxStatus || secretform.Contains(text, secrets...) {
			return errors.New(secretform.ScrubFirst(maxStatus, text, secrets...))
		}
		return err
	}
	message := s.Proto()
	if size := proto.Size(message); size <= maxStatus {
		raw, _ := proto.Marshal(message) // what cannot be encoded shows nothing either
		if !secretform.Contains(string(raw), secrets...) {
			return err
		}
	}
	return status.Error(s.Code(), strings.ToValidUTF8(secretform.ScrubFirst(maxStatus, s.Message(), secrets...), "?"))
}

// Scrub takes the secrets of the client out of a text that its server wrote: the tokens that calls were sent with and that
// have not expired, the last 16 of them, and the secret for which it gave them, in whatever form. Those of less than six
// bytes are left.
func (b *Bearer) Scrub(text string) string { return secretform.Scrub(text, b.secrets()...) }

// ScrubFirst is Scrub for the first bytes of a text of any length, which also show no beginning of a secret.
func (b *Bearer) ScrubFirst(length int, text string) string {
	return secretform.ScrubFirst(length, text, b.secrets()...)
}

// secrets are what the server was sent, and those tokens besides.
func (b *Bearer) secrets(tokens ...*token) []string {
	b.mu.Lock()
	tokens = append(tokens, b.current)
	tokens = append(tokens, b.sent...)
	b.mu.Unlock()
	var all []string
	for _, t := range tokens {
		if t == nil {
			continue
		}
		_, text, _ := strings.Cut(t.header.reveal(), " ")
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return append(all, b.source.secret.reveal())
}

// Scrub takes the key out of a text that a server wrote, in whatever form. A key of less than six bytes is left.
func (k APIKey) Scrub(text string) string { return secretform.Scrub(text, k.key.reveal()) }

// ScrubFirst is Scrub for the first bytes of a text of any length, which also show no beginning of the key.
func (k APIKey) ScrubFirst(length int, text string) string {
	return secretform.ScrubFirst(length, text, k.key.reveal())
}

// DialOptions put the key on every call of a connection, and keep it out of the errors of calls.
func (k APIKey) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithPerRPCCredentials(k),
		grpc.WithChainUnaryInterceptor(func(
			ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			return k.scrubError(invoke(ctx, method, request, reply, conn, opts...))
		}),
		grpc.WithChainStreamInterceptor(func(
			ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, begin grpc.Streamer, opts ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			s, err := begin(ctx, desc, conn, method, opts...)
			if err != nil {
				return nil, k.scrubError(err)
			}
			return &keyStream{ClientStream: s, key: k}, nil
		}),
	}
}

func (k APIKey) scrubError(err error) error { return scrubError(err, []string{k.key.reveal()}) }

// keyStream keeps the key out of the errors of a stream.
type keyStream struct {
	grpc.ClientStream
	key APIKey
}

func (s *keyStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	return md, s.key.scrubError(err)
}

func (s *keyStream) SendMsg(m any) error { return s.key.scrubError(s.ClientStream.SendMsg(m)) }

func (s *keyStream) RecvMsg(m any) error { return s.key.scrubError(s.ClientStream.RecvMsg(m)) }

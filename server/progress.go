// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"context"
	"net/http"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/protobuf/proto"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
)

// progress counts the bytes that were written of something, and lets others wait for them. The zero value is ready. It is
// safe for concurrent use.
type progress struct {
	written atomic.Int64
	waiters atomic.Int64
	more    signal // to the waiters
}

// add counts bytes that were written just now. Where nobody waits it takes no lock.
func (p *progress) add(n int) {
	p.written.Add(int64(n))
	if p.waiters.Load() > 0 {
		p.more.send()
	}
}

// await waits until so many bytes have been written in all, and reports false when ctx is done before. A waiter counts
// itself first and looks at the bytes then, add does it in the other order: so one of them sees the other.
func (p *progress) await(ctx context.Context, bytes int64) bool {
	p.waiters.Add(1)
	defer p.waiters.Add(-1)
	for {
		more := p.more.next()
		if p.written.Load() >= bytes {
			return true
		}
		select {
		case <-more:
		case <-ctx.Done():
			return false
		}
	}
}

// writtenStream is a stream whose SendMsg returns when the message has been written. gRPC itself takes a first message of
// any length at once and keeps it, and waits for room only when 64 KiB of the stream, or with net/http one message, are
// waiting already.
//
// With net/http it is the bytes of the stream that are counted. With grpc-go's own transport those of the whole connection
// are, so the answers to other calls of the same client can make a message seem written that is not: it is never waited for
// too long, and can be waited for too briefly.
type writtenStream struct {
	grpc.ServerStream
	progress *progress
}

// SendMsg implements grpc.ServerStream.
func (s *writtenStream) SendMsg(m any) error {
	message, ok := m.(proto.Message)
	if !ok {
		return s.ServerStream.SendMsg(m)
	}
	end := s.progress.written.Load() + int64(proto.Size(message))
	if err := s.ServerStream.SendMsg(m); err != nil {
		return err
	}
	if !s.progress.await(s.Context(), end) {
		return statusOfContext(s.Context())
	}
	return nil
}

// isFollowed reports whether the messages of a method are: those that can be long.
func isFollowed(method string) bool {
	return method == clientspb.ConnectionService_GetConnectedClients_FullMethodName ||
		method == clientspb.ConnectionService_ObserveConnectedClients_FullMethodName
}

// uncompressed makes a followed method's answers be sent as they are: compressed, they would have another length. It is for
// the handler itself, whom no interceptor comes after, before anything is sent.
func uncompressed(ctx context.Context) {
	_ = grpc.SetSendCompressor(ctx, encoding.Identity) // an error would say that the headers are sent
}

// followed returns the stream as one whose messages are followed until they are written, where that can be done.
func followed(stream grpc.ServerStream, c *conn) grpc.ServerStream {
	if w, ok := stream.Context().Value(writerKey{}).(*followedWriter); ok {
		return &writtenStream{ServerStream: stream, progress: &w.progress}
	}
	if c != nil && c.onlyHTTP2 {
		return &writtenStream{ServerStream: stream, progress: &c.progress}
	}
	return stream
}

// followedWriter is net/http's side of a call whose messages are followed. Its Write waits for room at the client.
type followedWriter struct {
	http.ResponseWriter
	progress
}

type writerKey struct{}

// follow returns a request and its writer such that followed finds the writer.
func follow(w http.ResponseWriter, req *http.Request) (http.ResponseWriter, *http.Request) {
	f := &followedWriter{ResponseWriter: w}
	return f, req.WithContext(context.WithValue(req.Context(), writerKey{}, f))
}

// Write implements http.ResponseWriter.
func (f *followedWriter) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	f.add(n)
	return n, err
}

// Flush implements http.Flusher, without which gRPC takes no writer. Where there is none below, gRPC says so to nobody: the
// server's own writers all have it.
func (f *followedWriter) Flush() { _ = f.FlushError() }

// FlushError is what Flush is for an http.ResponseController.
func (f *followedWriter) FlushError() error {
	return http.NewResponseController(f.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (f *followedWriter) Unwrap() http.ResponseWriter { return f.ResponseWriter }

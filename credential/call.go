// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package credential

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	tokenHeader = "authorization"
	keyHeader   = "api-key"
)

var _ credentials.PerRPCCredentials = (*Bearer)(nil)

// DialOptions put the token on every call of a connection and renew it when the server refuses it: a unary call that
// was answered Unauthenticated is made once more where another token is to be had. The errors of calls are Scrubbed, save
// those that a stats.Handler gets, which are the server's text as it came. Interceptors among options before these see
// such a call once.
func (b *Bearer) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithPerRPCCredentials(b),
		grpc.WithChainUnaryInterceptor(b.unary),
		grpc.WithChainStreamInterceptor(b.stream),
	}
}

// RequireTransportSecurity says whether tokens go over TLS only.
func (b *Bearer) RequireTransportSecurity() bool { return !b.place.Plaintext }

// GetRequestMetadata returns the token for a call. It waits only when there is none, for 5 s at most. The error has the
// code Unavailable, or Unauthenticated when the client is refused a token, and is the call's: errors.As finds the
// *TokenError in that.
func (b *Bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	if err := checkSecurity(ctx, b.place.Plaintext); err != nil {
		return nil, err
	}
	t, err := b.take(ctx)
	if err != nil {
		return nil, callError(ctx, err)
	}
	if u, ok := ctx.Value(useKey{}).(*use); ok {
		u.note(t)
	}
	return map[string]string{tokenHeader: t.header.reveal()}, nil
}

// checkSecurity refuses to send a secret where anybody can read it.
func checkSecurity(ctx context.Context, plaintext bool) error {
	if plaintext {
		return nil
	}
	info, ok := credentials.RequestInfoFromContext(ctx)
	if !ok {
		return nil // no call of grpc-go's, which checks RequireTransportSecurity besides
	}
	if err := credentials.CheckSecurityLevel(info.AuthInfo, credentials.PrivacyAndIntegrity); err != nil {
		return status.Error(codes.Unauthenticated, "credentials are sent over TLS only")
	}
	return nil
}

// callError is what a call fails with for which there was no token.
func callError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	if errors.Is(err, ErrRefused) {
		return &noTokenError{code: codes.Unauthenticated, cause: err}
	}
	return &noTokenError{code: codes.Unavailable, cause: err}
}

// noTokenError is a status with a cause. grpc-go passes it on as it is, since it has a code that credentials may give.
type noTokenError struct {
	code  codes.Code
	cause error
}

func (e *noTokenError) Error() string { return e.GRPCStatus().Err().Error() }

// GRPCStatus makes status.Code and status.FromError see the code.
func (e *noTokenError) GRPCStatus() *status.Status { return status.New(e.code, e.cause.Error()) }

func (e *noTokenError) Unwrap() error { return e.cause }

// use tells which tokens a call was sent with, the last one first. It is made once more at most.
type use struct{ last, first atomic.Pointer[token] }

type useKey struct{}

// note remembers a token.
func (u *use) note(t *token) {
	if before := u.last.Swap(t); before != t {
		u.first.Store(before)
	}
}

// number is that of the token the call was sent with; 0 when it was not sent with any.
func (u *use) number() uint64 {
	if t := u.last.Load(); t != nil {
		return t.number
	}
	return 0
}

// tokens are those that the call was sent with.
func (u *use) tokens() []*token { return []*token{u.last.Load(), u.first.Load()} }

func (b *Bearer) unary(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	u := &use{}
	noted := context.WithValue(ctx, useKey{}, u)
	err := invoke(noted, method, request, reply, conn, opts...)
	if b.judge(ctx, u, err) {
		err = invoke(noted, method, request, reply, conn, opts...)
	}
	return b.scrubError(err, u)
}

func (b *Bearer) stream(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, begin grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	u := &use{}
	s, err := begin(context.WithValue(ctx, useKey{}, u), desc, conn, method, opts...)
	if err != nil {
		b.judge(ctx, u, err)
		return nil, b.scrubError(err, u)
	}
	return &stream{ClientStream: s, caller: ctx, bearer: b, use: u}, nil
}

// judge looks at how a call ended. When its token was refused it waits for another one, and says whether there is one.
func (b *Bearer) judge(ctx context.Context, u *use, err error) bool {
	number := u.number()
	return number != 0 && status.Code(err) == codes.Unauthenticated && b.renew(ctx, number) == nil
}

// stream notices that its token was refused. Where that is the first that is heard of the server, the caller learns of it
// when there is another token, or none to be had: to begin anew helps then, if it ever does.
type stream struct {
	grpc.ClientStream
	caller  context.Context //nolint:containedctx // that of the stream itself is done when the stream has ended
	bearer  *Bearer
	use     *use
	begun   atomic.Bool // something came
	refused atomic.Bool // the refusal has been dealt with
}

func (s *stream) heard(err error) error {
	switch {
	case err == nil:
		s.begun.Store(true)
	case status.Code(err) != codes.Unauthenticated || s.refused.Swap(true):
	case s.begun.Load():
		s.bearer.note(s.use.number())
	default:
		s.bearer.judge(s.caller, s.use, err)
	}
	return s.bearer.scrubError(err, s.use)
}

func (s *stream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	if err != nil {
		err = s.heard(err)
	}
	return md, err
}

func (s *stream) SendMsg(m any) error {
	return s.bearer.scrubError(s.ClientStream.SendMsg(m), s.use)
}

func (s *stream) RecvMsg(m any) error { return s.heard(s.ClientStream.RecvMsg(m)) }

// scrubError keeps the client's secrets out of the error of a call, which a server may have written.
func (b *Bearer) scrubError(err error, u *use) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return scrubError(err, b.secrets(u.tokens()...))
}

// String tells nothing but what it is.
func (b *Bearer) String() string { return "bearer token (" + mask + ")" }

// Format prints what String returns, for every verb.
func (b *Bearer) Format(state fmt.State, _ rune) { printBare(state, b) }

// APIKey puts a key on every call, as the metadata api-key. No server that is known checks it.
type APIKey struct {
	key       hidden
	plaintext bool
}

var _ credentials.PerRPCCredentials = APIKey{}

// NewAPIKey returns credentials that send the key over TLS only, or, in plaintext, over any connection.
func NewAPIKey(key Secret, place Place) (APIKey, error) {
	if key == nil || !sendable(key.Reveal()) {
		return APIKey{}, errors.New("credential: the API key is empty or has characters that cannot be sent")
	}
	return APIKey{key: hide(key.Reveal()), plaintext: place.Plaintext}, nil
}

// GetRequestMetadata returns the key.
func (k APIKey) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	if err := checkSecurity(ctx, k.plaintext); err != nil {
		return nil, err
	}
	return map[string]string{keyHeader: k.key.reveal()}, nil
}

// RequireTransportSecurity says whether the key goes over TLS only.
func (k APIKey) RequireTransportSecurity() bool { return !k.plaintext }

// String tells nothing but what it is.
func (k APIKey) String() string { return "API key (" + mask + ")" }

// Format prints what String returns, for every verb.
func (k APIKey) Format(state fmt.State, _ rune) { printBare(state, k) }

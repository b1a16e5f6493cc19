// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package credential

import (
	"context"
	"time"

	"google.golang.org/grpc"
)

// HeadStartForTest is how long before its expiry a token is renewed.
func HeadStartForTest(life time.Duration, random float64) time.Duration {
	return headStart(life, random)
}

// ParseAnswerForTest reads the answer of a token endpoint.
func ParseAnswerForTest(status int, body []byte) (token string, life time.Duration, err *TokenError) {
	a, err := parseAnswer(status, body)
	return a.token, a.life, err
}

// ParseCachedForTest reads the content of a file of the cache.
func ParseCachedForTest(content []byte, endpoint, client string, now time.Time) (string, time.Duration, bool) {
	c, life, ok := (&disk{client: client}).parse(content, endpoint, now)
	return c.Token, life, ok
}

// SendableForTest says whether a token can go in a header.
func SendableForTest(token string) bool { return sendable(token) }

// UnaryForTest is the interceptor.
func (b *Bearer) UnaryForTest(ctx context.Context, invoke grpc.UnaryInvoker) error {
	return b.unary(ctx, "/test.Service/Method", nil, nil, nil, invoke)
}

// StreamForTest is the interceptor.
func (b *Bearer) StreamForTest(ctx context.Context, begin grpc.Streamer) (grpc.ClientStream, error) {
	return b.stream(ctx, nil, nil, "/test.Service/Method", begin)
}

// SetRandomForTest makes the random part of every head start the same, from 0 to 1.
func (s *Source) SetRandomForTest(random float64) { s.random = func() float64 { return random } }

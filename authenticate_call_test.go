// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/oauth2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/credential"
)

// once is a source of one token that lives for 10 s, and then of an error.
func once(err error) oauth2.TokenSource {
	given := false
	return tokenFunc(func() (*oauth2.Token, error) {
		if given {
			return nil, err
		}
		given = true
		return &oauth2.Token{AccessToken: "first", Expiry: time.Now().Add(10 * time.Second)}, nil
	})
}

func TestACallWithoutATokenSaysWhyWhileTheSessionLives(t *testing.T) {
	errVault := errors.New("the vault is sealed")
	tests := []struct {
		name   string
		cause  error
		code   codes.Code
		reason credential.Reason
		is     []error
	}{
		{
			"the client is refused a token", &oauth2.RetrieveError{ErrorCode: "invalid_client"},
			codes.Unauthenticated, credential.ReasonRefused,
			[]error{evenkeel.ErrUnauthenticated, credential.ErrRefused},
		},
		{"no token is to be had", errVault, codes.Unavailable, credential.ReasonSource, []error{errVault}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newMemoryCluster(t, "a")
				conn, r := c.connect(t, "chronicle://a", evenkeel.WithTokenSource(once(tt.cause)))
				r.await(t, evenkeel.EventConnected, 1)
				pass(11 * time.Second)
				_, unary := version(t.Context(), conn)
				check := func(kind string, err error) {
					t.Helper()
					failed, ok := errors.AsType[*credential.TokenError](err)
					if !ok || failed.Reason != tt.reason || status.Code(err) != tt.code || conn.State() != evenkeel.StateReady {
						t.Errorf("%s in state %v failed with %v, want %v and a *TokenError with %q", kind, conn.State(), err, tt.code, tt.reason)
					}
					for _, target := range tt.is {
						if !errors.Is(err, target) {
							t.Errorf("errors.Is does not find %q in %v", target, err)
						}
					}
				}
				check("a call", unary)
				_, stream := clientspb.NewConnectionServiceClient(conn).ObserveConnectedClients(t.Context(), &emptypb.Empty{})
				check("a stream", stream)
			})
		})
	}
}

func TestACallThatTheServerRefusesKeepsItsStatusAndIsErrUnauthenticated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a")
		refusal, err := status.New(codes.Unauthenticated, "who are you").WithDetails(wrapperspb.String("a detail"))
		if err != nil {
			t.Fatal(err)
		}
		refuse := func(context.Context) error { return refusal.Err() }
		c.servers["a:35000"].info.Store(&refuse)
		conn, r := c.connect(t, "chronicle://a")
		r.await(t, evenkeel.EventConnected, 1)
		_, err = version(t.Context(), conn)
		got := status.Convert(err)
		if !errors.Is(err, evenkeel.ErrUnauthenticated) || got.Message() != "who are you" || len(got.Details()) != 1 || err.Error() != refusal.Err().Error() {
			t.Errorf("the call failed with %v, details %v, want %v and ErrUnauthenticated in it", err, got.Details(), refusal.Err())
		}
	})
}

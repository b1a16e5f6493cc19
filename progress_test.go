// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/credential"
	"github.com/evenkeel-go/evenkeel/discover"
)

// hanging does nothing until its context ends, whatever it is asked for.
type hanging struct{}

func (hanging) Resolve(ctx context.Context) ([]discover.Endpoint, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (hanging) Select(ctx context.Context, _ []discover.Endpoint) (balance.Selection, error) {
	<-ctx.Done()
	return balance.Selection{}, ctx.Err()
}

func (hanging) dial(ctx context.Context, _ discover.Endpoint) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (hanging) compat(ctx context.Context, _ *clientspb.CompatibilityRequest) (*clientspb.CompatibilityResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (hanging) pulse(int, string) (string, error) { return "", nil }

func (hanging) onReady(ctx context.Context, _ grpc.ClientConnInterface) error {
	<-ctx.Done()
	return ctx.Err()
}

// stuckTokens is a source that gives nothing until the test has ended.
func stuckTokens(t *testing.T) oauth2.TokenSource {
	released := make(chan struct{})
	t.Cleanup(func() { close(released) })
	return tokenFunc(func() (*oauth2.Token, error) {
		<-released
		return nil, errors.New("released")
	})
}

// hang makes one step of an attempt at server a hang. It returns the options for that.
func hang(t *testing.T, c *memoryCluster, step evenkeel.Step) []evenkeel.Option {
	t.Helper()
	switch a := c.servers["a:35000"]; step {
	case evenkeel.StepResolve:
		return []evenkeel.Option{evenkeel.WithResolver(hanging{})}
	case evenkeel.StepSelect:
		return []evenkeel.Option{evenkeel.WithStrategy(hanging{})}
	case evenkeel.StepDial:
		return []evenkeel.Option{evenkeel.WithDialerForTest(hanging{}.dial)}
	case evenkeel.StepToken:
		return []evenkeel.Option{evenkeel.WithTokenSource(stuckTokens(t))}
	case evenkeel.StepCompatibility:
		compat := hanging{}.compat
		a.compat.Store(&compat)
	case evenkeel.StepConnect:
		pulse := hanging{}.pulse
		a.pulse.Store(&pulse)
	case evenkeel.StepOnReady:
		return []evenkeel.Option{evenkeel.WithOnReady(hanging{}.onReady)}
	}
	return nil
}

func TestDialNamesTheServerAndTheStepThatWasGoingOnAtItsDeadline(t *testing.T) {
	for step := evenkeel.StepResolve; step <= evenkeel.StepOnReady; step++ {
		t.Run(step.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newMemoryCluster(t, "a")
				opts := append([]evenkeel.Option{evenkeel.WithDialerForTest(c.dial), evenkeel.WithPlaintext()}, hang(t, c, step)...)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				began := time.Now()
				_, err := evenkeel.Dial(ctx, "chronicle://a", opts...)
				if d := time.Since(began); d > 2*time.Second+100*time.Millisecond {
					t.Errorf("Dial took %v, want 2s", d)
				}
				attempt, ok := errors.AsType[*evenkeel.AttemptError](err)
				if !ok || !errors.Is(err, context.DeadlineExceeded) || attempt.Permanent() {
					t.Fatalf("Dial returned %v, want an *AttemptError that is no permanent one and the deadline in it", err)
				}
				want := step.String() + " a:35000: not done after 2s"
				switch step {
				case evenkeel.StepResolve:
					want = "resolve the servers: not done after 2s"
				case evenkeel.StepSelect:
					want = "select a server: not done after 2s"
				default:
					if f := attempt.Failures; len(f) != 1 || f[0].Step != step || f[0].Endpoint.Addr() != "a:35000" {
						t.Errorf("the failures are %v, want one, of a:35000 at %v", f, step)
					}
				}
				if text := err.Error(); !strings.HasPrefix(text, "evenkeel: no session: context deadline exceeded") || !strings.HasSuffix(text, want) {
					t.Errorf("the error is %q, want %q", text, want)
				}
			})
		})
	}
}

func TestWaitsAndCallsNameWhatWasGoingOnToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a")
		conn, _ := c.connect(t, "chronicle://a", hang(t, c, evenkeel.StepConnect)...)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, call := version(ctx, conn)
		if status.Code(call) != codes.DeadlineExceeded {
			t.Errorf("the call failed with %v, want DeadlineExceeded", call)
		}
		for what, err := range map[string]error{"the call": call, "WaitReady": conn.WaitReady(ctx)} {
			failed, ok := errors.AsType[*evenkeel.EndpointError](err)
			if !ok || failed.Step != evenkeel.StepConnect || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s failed with %v, want the server and the step", what, err)
			}
		}
	})
}

// What failed says more than what goes on, and none of it is said twice.
func TestWhatFailedBeforeIsNamedBesideWhatGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		c.refuse.Store("b", true)
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second) // in the middle of the second attempt
		defer cancel()
		_, err := evenkeel.Dial(ctx, "chronicle://a,b?loadBalancer=round-robin", append([]evenkeel.Option{
			evenkeel.WithDialerForTest(c.dial), evenkeel.WithPlaintext(),
		}, hang(t, c, evenkeel.StepToken)...)...)
		attempt, ok := errors.AsType[*evenkeel.AttemptError](err)
		if !ok || len(attempt.Failures) != 2 {
			t.Fatalf("Dial returned %v, want an *AttemptError with each server once", err)
		}
		failed, ok := errors.AsType[*credential.TokenError](err)
		if !ok || failed.Reason != credential.ReasonTimeout || !errors.Is(err, errRefused) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Dial returned %v, want the causes of both servers and the deadline", err)
		}
	})
}

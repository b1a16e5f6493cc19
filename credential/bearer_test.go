// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package credential_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/credential"
)

// inBubble runs a test on a fake clock.
func inBubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

func TestCredentialsGoInTheFormAndNeverInAHeader(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := &endpoint{}
		wantToken(t, at(t, newSource(t), place(e)), "token-1")
		want := map[string]string{"grant_type": "client_credentials", "client_id": "app", "client_secret": planted}
		for name, value := range want {
			if got := e.form[name]; len(got) != 1 || got[0] != value {
				t.Errorf("%s is %q, want %q", name, got, value)
			}
		}
		if len(e.form) != len(want) || e.basic {
			t.Errorf("the form is %v and an authorization was sent: %v", e.form, e.basic)
		}
	})
}

func TestAnyNumberOfWaitingCallsShareOneRequest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := &endpoint{delay: time.Second}
		b := at(t, newSource(t), place(e))
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { wantToken(t, b, "token-1") })
		}
		all.Wait()
		if n := len(e.times()); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}

func TestACallerThatLeavesDoesNotCancelTheRequestOfTheOthers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := &endpoint{delay: time.Second}
		b := at(t, newSource(t), place(e))
		ctx, cancel := context.WithCancel(t.Context())
		var both sync.WaitGroup
		both.Go(func() { // it began the request
			if _, err := token(ctx, b); status.Code(err) != codes.Canceled {
				t.Errorf("the caller that left got %v, want Canceled", err)
			}
		})
		synctest.Wait()
		both.Go(func() { wantToken(t, b, "token-1") })
		synctest.Wait()
		cancel()
		both.Wait()
		if n := len(e.times()); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}

func TestATokenIsRenewedInTheBackgroundBeforeItExpires(t *testing.T) {
	tests := []struct {
		name, life string
		random     float64
		after      time.Duration
	}{
		{"an hour", "3600", 0, 59 * time.Minute},
		{"an hour, the earliest", "3600", 1, 53 * time.Minute},
		{"a string", `"3600"`, 0, 59 * time.Minute},
		{"none said", "", 0, 59 * time.Minute},
		{"negative", "-5", 0, 59 * time.Minute},
		{"a minute", "60", 0, 45 * time.Second},
		{"a second", "1", 0, 750 * time.Millisecond},
		{"huge", "1e300", 0, 30*24*time.Hour - time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				e := &endpoint{life: tt.life}
				s := newSource(t)
				s.SetRandomForTest(tt.random)
				b := at(t, s, place(e))
				wantToken(t, b, "token-1")
				time.Sleep(tt.after - time.Nanosecond)
				wantToken(t, b, "token-1")
				synctest.Wait()
				if n := len(e.times()); n != 1 {
					t.Fatalf("%d requests before it is due, want 1", n)
				}
				time.Sleep(time.Nanosecond)
				wantToken(t, b, "token-1") // the old one serves meanwhile
				synctest.Wait()
				wantToken(t, b, "token-2")
			})
		})
	}
}

func TestATokenServesWhileItsEndpointIsDownAndIsAskedForEvery5s(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := &endpoint{life: "60"}
		b := at(t, newSource(t), place(e))
		wantToken(t, b, "token-1")
		e.down()
		time.Sleep(45 * time.Second)
		for range 149 { // 14.9 s of calls
			wantToken(t, b, "token-1")
			time.Sleep(100 * time.Millisecond)
		}
		times := e.times()
		if len(times) != 4 {
			t.Fatalf("%d requests, want the first one and 3 failed ones", len(times))
		}
		for i := 2; i < len(times); i++ {
			if d := times[i].Sub(times[i-1]); d != 5*time.Second {
				t.Errorf("failed requests lie %v apart, want 5s", d)
			}
		}
		e.up()
		time.Sleep(5 * time.Second)
		wantToken(t, b, "token-5")
	})
}

func TestWithoutATokenCallsFailWithWhatTheEndpointDid(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := &endpoint{}
		e.down()
		b := at(t, newSource(t), place(e))
		for range 50 { // 5 s of calls
			if _, err := token(t.Context(), b); status.Code(err) != codes.Unavailable {
				t.Fatalf("a call failed with %v, want Unavailable", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(e.times()); n != 5 {
			t.Errorf("%d requests in 5 s, want 5", n)
		}
		err := b.Ready(t.Context())
		if failed, ok := errors.AsType[*credential.TokenError](err); !ok || failed.Status != 503 || failed.Place != "node-1.example:35000/connect/token" {
			t.Errorf("Ready returned %v, want a TokenError of status 503", err)
		}
		e.set(func(e *endpoint) { e.fail = func() (int, string) { return 401, `{"error":"invalid_client"}` } })
		if err := b.Ready(t.Context()); !errors.Is(err, credential.ErrRefused) {
			t.Errorf("Ready returned %v, want %v", err, credential.ErrRefused)
		}
		if _, err := token(t.Context(), b); status.Code(err) != codes.Unauthenticated {
			t.Errorf("a call failed with %v, want Unauthenticated", err)
		}
	})
}

func TestARequestThatHangsEndsAfter5s(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := at(t, newSource(t), place(&endpoint{delay: time.Hour}))
		began := time.Now()
		err := b.Ready(t.Context())
		if failed, ok := errors.AsType[*credential.TokenError](err); !ok || failed.Reason != credential.ReasonTimeout {
			t.Errorf("Ready returned %v, want a timeout", err)
		}
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("it took %v, want 5s", d)
		}
	})
}

func TestCloseEndsTheRequestThatIsGoingOn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := at(t, newSource(t), place(&endpoint{delay: time.Hour}))
		failed := make(chan error)
		go func() { failed <- b.Ready(t.Context()) }()
		synctest.Wait()
		began := time.Now()
		b.Close()
		if err := <-failed; !errors.Is(err, credential.ErrClosed) || time.Since(began) != 0 {
			t.Errorf("Ready returned %v after %v, want %v at once", err, time.Since(began), credential.ErrClosed)
		}
		b.Close()
		if err := b.Ready(t.Context()); !errors.Is(err, credential.ErrClosed) {
			t.Errorf("Ready after Close returned %v", err)
		}
	})
}

func TestAUnaryCallThatIsRefusedIsMadeOnceMoreWithAnotherToken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := &endpoint{delay: time.Second}
		b := at(t, newSource(t), place(e))
		c := &calls{bearer: b, bad: map[string]bool{"Bearer token-1": true}}
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if err := b.UnaryForTest(t.Context(), c.invoke); err != nil {
					t.Errorf("a call failed: %v", err)
				}
			})
		}
		all.Wait()
		if n := len(e.times()); n != 2 {
			t.Errorf("%d requests, want the first and one for the token that was refused", n)
		}
		if n := len(c.seen); n != 200 {
			t.Errorf("the server saw %d calls, want each twice", n)
		}
	})
}

func TestAServerThatRefusesEveryTokenIsAskedForOneEvery3s(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := &endpoint{}
		b := at(t, newSource(t), place(e))
		c := &calls{bearer: b, all: true}
		for range 90 { // 9 s of calls
			if err := b.UnaryForTest(t.Context(), c.invoke); status.Code(err) != codes.Unauthenticated {
				t.Fatalf("a call returned %v, want Unauthenticated", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(e.times()); n != 4 {
			t.Errorf("%d requests in 9 s, want the first and 3 more", n)
		}
	})
}

func TestACallThatFailsOtherwiseIsNotMadeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := &endpoint{}
		b := at(t, newSource(t), place(e))
		made := 0
		for _, code := range []codes.Code{codes.PermissionDenied, codes.Unavailable, codes.Internal} {
			err := b.UnaryForTest(t.Context(), func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
				made++
				_, err := token(ctx, b)
				return errors.Join(err, status.Error(code, "no"))
			})
			if status.Code(err) != code {
				t.Errorf("got %v, want %v", err, code)
			}
		}
		err := b.UnaryForTest(t.Context(), func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
			made++ // refused for want of anything but a token: it was sent with none
			return status.Error(codes.Unauthenticated, "no")
		})
		if status.Code(err) != codes.Unauthenticated || made != 4 {
			t.Errorf("a call without a token returned %v after %d more calls, want Unauthenticated after 1", err, made-3)
		}
		if len(e.times()) != 1 {
			t.Errorf("3 calls led to %d requests for tokens, want 1", len(e.times()))
		}
	})
}

// fakeStream ends with an error.
type fakeStream struct {
	grpc.ClientStream
	err error
}

func (f fakeStream) RecvMsg(any) error { return f.err }

func TestAStreamThatIsRefusedIsNotMadeAgainAndTheNextHasAnotherToken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := &endpoint{}
		b := at(t, newSource(t), place(e))
		begun := 0
		begin := func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
			begun++
			if _, err := token(ctx, b); err != nil {
				return nil, err
			}
			return fakeStream{err: status.Error(codes.Unauthenticated, "refused")}, nil
		}
		s, err := b.StreamForTest(t.Context(), begin)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.RecvMsg(nil); status.Code(err) != codes.Unauthenticated || begun != 1 {
			t.Errorf("RecvMsg returned %v after %d streams, want Unauthenticated after 1", err, begun)
		}
		wantToken(t, b, "token-2")
	})
}

// The calls of a moment use one token. One that is answered late finds it replaced.
func TestACallThatIsRefusedLateUsesTheTokenThatAnotherCallGot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := &endpoint{}
		b := at(t, newSource(t), place(e))
		c := &calls{bearer: b, bad: map[string]bool{"Bearer token-1": true}}
		late := make(chan error)
		go func() {
			late <- b.UnaryForTest(t.Context(), func(ctx context.Context, m string, q, a any, cc *grpc.ClientConn, o ...grpc.CallOption) error {
				err := c.invoke(ctx, m, q, a, cc, o...)
				time.Sleep(time.Second)
				return err
			})
		}()
		synctest.Wait()
		if err := b.UnaryForTest(t.Context(), c.invoke); err != nil {
			t.Errorf("the early call: %v", err)
		}
		if err := <-late; err != nil {
			t.Errorf("the late call: %v", err)
		}
		if n := len(e.times()); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
	})
}

func TestTheNextCallAfterARefusedStreamHasTheOldTokenWhenThereIsNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := &endpoint{}
		b := at(t, newSource(t), place(e))
		s, err := b.StreamForTest(t.Context(),
			func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
				_, err := token(ctx, b)
				return fakeStream{err: status.Error(codes.Unauthenticated, "refused")}, err
			})
		if err != nil {
			t.Fatal(err)
		}
		e.down()
		if err := s.RecvMsg(nil); status.Code(err) != codes.Unauthenticated {
			t.Errorf("RecvMsg returned %v, want Unauthenticated", err)
		}
		wantToken(t, b, "token-1")
		if n := len(e.times()); n != 2 {
			t.Errorf("%d requests, want one for the refusal", n)
		}
	})
}

// A method may be refused for a reason of its own, and the place where tokens come from be slow.
func TestOnlyTheCallThatWasRefusedWaitsForAnotherToken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := &endpoint{}
		b := at(t, newSource(t), place(e))
		wantToken(t, b, "token-1")
		e.set(func(e *endpoint) { e.delay = time.Hour })
		refused := make(chan time.Duration, 1)
		began := time.Now()
		go func() {
			c := &calls{bearer: b, all: true}
			if err := b.UnaryForTest(t.Context(), c.invoke); status.Code(err) != codes.Unauthenticated {
				t.Errorf("the call that was refused returned %v", err)
			}
			refused <- time.Since(began)
		}()
		for time.Since(began) < 20*time.Second {
			synctest.Wait()
			before := time.Now()
			wantToken(t, b, "token-1")
			if d := time.Since(before); d != 0 {
				t.Errorf("another call waited for %v", d)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if d := <-refused; d != 5*time.Second {
			t.Errorf("the call that was refused took %v, want the 5s of a request", d)
		}
		synctest.Wait()
		times := e.times()
		for i := 2; i < len(times); i++ {
			if d := times[i].Sub(times[i-1]); d < 10*time.Second { // 5 s after the end of one that takes 5 s
				t.Errorf("failed requests lie %v apart", d)
			}
		}
		if len(times) != 3 {
			t.Errorf("%d requests, want the first one and 2 that failed", len(times))
		}
	})
}

// The session's stream lives for as long as the session, and its token is long forgotten otherwise.
func TestAStreamKeepsTheTokenItWasSentWithOutOfItsError(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := &endpoint{}
		b := at(t, newSource(t), place(e))
		s, err := b.StreamForTest(t.Context(),
			func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
				_, err := token(ctx, b)
				return fakeStream{err: status.Error(codes.Internal, "trouble with Bearer token-1")}, err
			})
		if err != nil {
			t.Fatal(err)
		}
		bad := &calls{bearer: b, bad: map[string]bool{}}
		for i := range 40 {
			bad.bad[fmt.Sprintf("Bearer token-%d", i+1)] = true
			time.Sleep(3 * time.Second)
			if err := b.UnaryForTest(t.Context(), bad.invoke); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.RecvMsg(nil); strings.Contains(err.Error(), "token-1") {
			t.Errorf("the stream ended with %v", err)
		}
		if got := b.Scrub("token-40 token-26"); got != "*** ***" {
			t.Errorf("of the last 16 tokens remains %q", got)
		}
	})
}

// One server may refuse what others take, and its endpoint be down: the token is tried until it expires.
func TestARefusedTokenServesWhileThereIsNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := &endpoint{}
		b := at(t, newSource(t), place(e))
		c := &calls{bearer: b, bad: map[string]bool{"Bearer token-1": true}}
		wantToken(t, b, "token-1")
		e.down()
		if err := b.UnaryForTest(t.Context(), c.invoke); status.Code(err) != codes.Unauthenticated {
			t.Errorf("a call returned %v, want Unauthenticated", err)
		}
		wantToken(t, b, "token-1")
		e.up()
		time.Sleep(5*time.Second - time.Nanosecond)
		if err := b.UnaryForTest(t.Context(), c.invoke); status.Code(err) != codes.Unauthenticated {
			t.Errorf("a call 5 s before the failed request may be repeated returned %v, want Unauthenticated", err)
		}
		time.Sleep(time.Nanosecond)
		wantToken(t, b, "token-1") // the call does not wait for the request that it leads to
		synctest.Wait()
		wantToken(t, b, "token-3")
	})
}

func TestATokenIsKeptFromOneServerToTheNext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		first, second := &endpoint{}, &endpoint{}
		s := newSource(t)
		wantToken(t, at(t, s, place(first)), "token-1")
		wantToken(t, at(t, s, place(second)), "token-1")
		if n := len(second.times()); n != 0 {
			t.Errorf("the second server was asked %d times, want 0", n)
		}
	})
}

// Each server takes its own tokens only, and the client talks to both for a while.
func TestServersWithTokensOfTheirOwnAreAskedOnceEach(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		first, second := &endpoint{}, &endpoint{}
		second.asked = make([]time.Time, 10) // its tokens have other names
		s := newSource(t)
		a := at(t, s, place(first))
		wantToken(t, a, "token-1")
		b := at(t, s, place(second))
		atA := &calls{bearer: a, bad: map[string]bool{"Bearer token-11": true}}
		atB := &calls{bearer: b, bad: map[string]bool{"Bearer token-1": true}}
		for range 100 {
			if err := errors.Join(a.UnaryForTest(t.Context(), atA.invoke), b.UnaryForTest(t.Context(), atB.invoke)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n, m := len(first.times()), len(second.times())-10; n != 1 || m != 1 {
			t.Errorf("the servers were asked %d and %d times, want once each", n, m)
		}
	})
}

// 200 clients got their tokens in the same second, and call ten times a second.
func TestTwoHundredClientsWhoseTokensExpireTogetherAskSpreadOut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := &endpoint{life: "600"}
		var bearers []*credential.Bearer
		for range 200 {
			s, err := credential.NewClientCredentials(credential.ClientCredentialsConfig{
				ClientID: "app", ClientSecret: secretOf(planted),
			})
			if err != nil {
				t.Fatal(err)
			}
			b := at(t, s, place(e))
			if err := b.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			bearers = append(bearers, b)
		}
		began := time.Now()
		for time.Since(began) < 599*time.Second {
			for _, b := range bearers {
				if _, err := token(t.Context(), b); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(500 * time.Millisecond)
		}
		synctest.Wait()
		renewals := e.times()[200:]
		if len(renewals) != 200 {
			t.Fatalf("%d renewals, want one for each client", len(renewals))
		}
		inSecond := map[int]int{}
		most := 0
		for _, at := range renewals {
			d := at.Sub(began)
			if d < 480*time.Second || d > 541*time.Second {
				t.Errorf("a renewal after %v, want it 60 to 120 s before the expiry", d)
			}
			second := int(d.Seconds())
			inSecond[second]++
			most = max(most, inSecond[second])
		}
		if most > 15 { // 200 over 60 s are 3.3 in a second on average
			t.Errorf("%d renewals in one second, want them spread over a minute", most)
		}
		t.Logf("at most %d renewals in a second", most)
	})
}

func TestNoCallOfAFleetFailsWhileItsTokenEndpointIsDownFor20s(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := &endpoint{life: "120"}
		var bearers []*credential.Bearer
		for range 200 {
			b := at(t, newSource(t), place(e))
			if err := b.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			bearers = append(bearers, b)
		}
		time.Sleep(85 * time.Second)
		e.down()
		began := time.Now()
		for time.Since(began) < 34*time.Second {
			if time.Since(began) >= 20*time.Second {
				e.up()
			}
			for _, b := range bearers {
				if _, err := token(t.Context(), b); err != nil {
					t.Fatalf("a call failed %v after the endpoint went down: %v", time.Since(began), err)
				}
			}
			time.Sleep(500 * time.Millisecond)
		}
		synctest.Wait()
		failed := 0
		for _, at := range e.times()[200:] {
			if at.Sub(began) < 20*time.Second {
				failed++
			}
		}
		if want := 200 * 4; failed > want {
			t.Errorf("%d failed requests in 20 s, want at most %d", failed, want)
		}
		for _, b := range bearers {
			if got, err := token(t.Context(), b); err != nil || got == "" {
				t.Errorf("a call: %q, %v", got, err)
			}
		}
	})
}

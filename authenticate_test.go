// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/credential"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
	"github.com/evenkeel-go/evenkeel/server"
)

// planted is a secret that must show up nowhere.
const planted = "pl@nted/secret"

// guarded starts a cluster whose servers ask for tokens.
func guarded(t *testing.T, config evenkeeltest.Config) *evenkeeltest.Cluster {
	t.Helper()
	if config.Auth == nil {
		config.Auth = &server.AuthConfig{}
	}
	config.Auth.Clients = []server.AuthClient{{ID: "app", Secret: connstring.NewSecret(planted)}}
	return evenkeeltest.Start(t, config)
}

// noSecret fails when a text shows the secret in any of its forms.
func noSecret(t *testing.T, text string) {
	t.Helper()
	for _, form := range []string{planted, "pl%40nted", "pl@nted", "cGxAbnRlZC9zZWNyZXQ"} {
		if strings.Contains(text, form) {
			t.Errorf("the secret shows in %q", text)
		}
	}
}

func clients(ctx context.Context, conn grpc.ClientConnInterface) error {
	_, err := clientspb.NewConnectionServiceClient(conn).GetConnectedClients(ctx, &emptypb.Empty{})
	return err
}

func TestASessionIsHeldWithATokenOfTheChosenServer(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]evenkeeltest.Config{
		"TLS": {Servers: 2}, "plaintext": {Servers: 2, Plaintext: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := guarded(t, config)
			trust := evenkeel.WithTLS(cluster.TLS())
			if config.Plaintext {
				trust = evenkeel.WithPlaintext()
			}
			conn := dial(t, cluster.SRVConnectionString(), trust)
			if err := clients(within(t), conn); err != nil {
				t.Errorf("a call: %v", err)
			}
		})
	}
}

// Tokens of our servers are good on the server that gave them only, as are those of a stock server whose keys changed.
func TestAClientThatMovesGetsATokenOfTheNextServer(t *testing.T) {
	t.Parallel()
	cluster := guarded(t, evenkeeltest.Config{Servers: 2})
	r := newRecorder()
	conn := dial(t, cluster.ConnectionString(), evenkeel.WithTLS(cluster.TLS()), evenkeel.WithEvents(r.record))
	for _, s := range cluster.Servers {
		if s.Addr() == conn.Server().Addr() {
			if err := s.Drain(within(t)); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	again := r.await(t, evenkeel.EventConnected, 2)
	for _, e := range r.all(evenkeel.EventCandidateFailed) {
		t.Errorf("a server was given up: %v", e)
	}
	if err := clients(within(t), conn); err != nil {
		t.Errorf("a call on %s: %v", again.Endpoint.Addr(), err)
	}
}

func TestACallWhoseTokenIsRefusedIsMadeOnceMore(t *testing.T) {
	t.Parallel()
	cluster := guarded(t, evenkeeltest.Config{Servers: 1, Auth: &server.AuthConfig{MaxTokens: 1}})
	refusals := 0
	count := grpc.WithChainUnaryInterceptor(func(
		ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		err := invoke(ctx, method, request, reply, cc, opts...)
		if status.Code(err) == codes.Unauthenticated {
			refusals++
		}
		return err
	})
	conn := dial(t, cluster.ConnectionString(), evenkeel.WithTLS(cluster.TLS()), evenkeel.WithoutSession(), evenkeel.WithDialOptions(count))
	// Another client gets the only token that may be valid.
	dial(t, cluster.ConnectionString(), evenkeel.WithTLS(cluster.TLS()), evenkeel.WithoutSession())
	if err := clients(within(t), conn); err != nil {
		t.Errorf("the call with the old token: %v", err)
	}
	if refusals > 0 {
		t.Errorf("an interceptor of the program's saw %d refusals, want none", refusals)
	}
}

func TestDialEndsWhenEveryServerRefusesTheCredentials(t *testing.T) {
	t.Parallel()
	cluster := guarded(t, evenkeeltest.Config{Servers: 3})
	began := time.Now()
	wrong := strings.Replace(cluster.ConnectionString(), "app:", "other:", 1)
	_, err := evenkeel.Dial(within(t), wrong, evenkeel.WithTLS(cluster.TLS()))
	attempt, ok := errors.AsType[*evenkeel.AttemptError](err)
	if !ok || !attempt.Permanent() || len(attempt.Failures) != 3 || attempt.Failures[0].Step != evenkeel.StepToken {
		t.Fatalf("Dial returned %v, want an attempt that was refused a token three times", err)
	}
	if !errors.Is(err, evenkeel.ErrUnauthenticated) || !errors.Is(err, credential.ErrRefused) {
		t.Errorf("errors.Is finds no refusal in %v", err)
	}
	if d := time.Since(began); d > limit/3 {
		t.Errorf("Dial took %v, want one attempt", d)
	}
	noSecret(t, err.Error())
}

func TestAServerThatWantsCredentialsRefusesAClientWithoutForGood(t *testing.T) {
	t.Parallel()
	cluster := guarded(t, evenkeeltest.Config{Servers: 1})
	_, err := evenkeel.Dial(within(t), "chronicle://"+cluster.Servers[0].Addr(), evenkeel.WithTLS(cluster.TLS()))
	attempt, ok := errors.AsType[*evenkeel.AttemptError](err)
	if !ok || !attempt.Permanent() || attempt.Failures[0].Step != evenkeel.StepConnect || !errors.Is(err, evenkeel.ErrUnauthenticated) {
		t.Fatalf("Dial returned %v, want a permanent refusal of Connect", err)
	}
}

// TestARefusalSaysWhatToCheck: what the client showed, and nothing that it never had.
func TestARefusalSaysWhatToCheck(t *testing.T) {
	t.Parallel()
	cluster := guarded(t, evenkeeltest.Config{Servers: 1})
	addr := cluster.Servers[0].Addr()
	own := tokenFunc(func() (*oauth2.Token, error) { return &oauth2.Token{AccessToken: "nobodys"}, nil })
	tests := []struct {
		name, text string
		options    []evenkeel.Option
		want       string
	}{
		{"a password", strings.Replace(cluster.ConnectionString(), "app:", "other:", 1), nil, "(check the user and the password in the connection string)"},
		{"nothing", "chronicle://" + addr, nil, "(the client gives no credentials: put user:password@ in front of the host in the connection string)"},
		{"an API key", "chronicle://" + addr + "/?apiKey=key", nil, "(a server that asks for tokens looks at no API key: give a user and a password instead)"},
		{"tokens of its own", "chronicle://" + addr, []evenkeel.Option{evenkeel.WithTokenSource(own)}, "(check the program's own source of tokens)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			failed := permanentFailure(t, tt.text, append(tt.options, evenkeel.WithTLS(cluster.TLS()))...)
			if !errors.Is(failed, evenkeel.ErrUnauthenticated) || !strings.HasSuffix(failed.Error(), tt.want) {
				t.Errorf("got %q, want a refusal and %q at its end", failed, tt.want)
			}
			if strings.Contains(failed.Error(), "ended the session") {
				t.Errorf("got %q: no session has begun", failed)
			}
		})
	}
}

// TestATokenThatDoesNotComeIsNotBlamedOnTheConnection, which was made.
func TestATokenThatDoesNotComeIsNotBlamedOnTheConnection(t *testing.T) {
	t.Parallel()
	slow := &evenkeel.EndpointError{
		Step: evenkeel.StepToken, Err: &credential.TokenError{Reason: credential.ReasonTimeout, Err: context.DeadlineExceeded},
	}
	if text := slow.Error(); strings.Contains(text, "accepted nothing") {
		t.Errorf("got %q", text)
	}
	slow.Step = evenkeel.StepDial
	if text := slow.Error(); !strings.HasSuffix(text, "(the server accepted nothing in time)") {
		t.Errorf("got %q for a connection that was not made", text)
	}
}

func TestACandidateThatRefusesTheCredentialsIsLeftOutOfTheAttempt(t *testing.T) {
	t.Parallel()
	cluster := guarded(t, evenkeeltest.Config{Servers: 2})
	cluster.Servers[0].SetFault(evenkeeltest.Fault{Token: evenkeeltest.TokenRefused(), Count: evenkeeltest.CountOf(0)})
	cluster.Servers[1].SetFault(evenkeeltest.Fault{Count: evenkeeltest.CountOf(5)})
	r := newRecorder()
	conn := dial(t, cluster.ConnectionString(), evenkeel.WithTLS(cluster.TLS()), evenkeel.WithEvents(r.record))
	if got := conn.Server().Addr(); got != cluster.Servers[1].Addr() {
		t.Errorf("connected to %s, want the one that takes the credentials", got)
	}
	if e := r.await(t, evenkeel.EventCandidateFailed, 1); !errors.Is(e.Err, evenkeel.ErrUnauthenticated) {
		t.Errorf("the first candidate failed with %v", e.Err)
	}
}

func TestWithStopOnEndsTheConnInsteadOfTryingOn(t *testing.T) {
	t.Parallel()
	cluster := guarded(t, evenkeeltest.Config{Servers: 2})
	cluster.Servers[0].SetFault(evenkeeltest.Fault{Token: evenkeeltest.TokenRefused()})
	cluster.Servers[1].SetFault(evenkeeltest.Fault{Token: evenkeeltest.TokenDown()})
	r := newRecorder()
	conn, err := evenkeel.New(cluster.ConnectionString(), evenkeel.WithTLS(cluster.TLS()),
		evenkeel.WithStopOn(evenkeel.ErrUnauthenticated), evenkeel.WithEvents(r.record))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if err := conn.WaitReady(within(t)); !errors.Is(err, evenkeel.ErrUnauthenticated) {
		t.Errorf("WaitReady returned %v, want the refusal", err)
	}
	if got := conn.State(); got != evenkeel.StateShutdown {
		t.Errorf("the state is %v, want shutdown", got)
	}
	err = clients(within(t), conn)
	if status.Code(err) != codes.Unavailable || !errors.Is(err, evenkeel.ErrUnauthenticated) {
		t.Errorf("a call returned %v, want Unavailable with the refusal", err)
	}
	if e := r.await(t, evenkeel.EventClosed, 1); !errors.Is(e.Err, evenkeel.ErrUnauthenticated) {
		t.Errorf("the last event is %v, want the refusal in it", e)
	}
	if err := conn.Reselect(within(t)); !errors.Is(err, evenkeel.ErrClosed) {
		t.Errorf("Reselect returned %v, want %v", err, evenkeel.ErrClosed)
	}
}

func TestAProgramsOwnTokensAreSent(t *testing.T) {
	t.Parallel()
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1, Auth: &server.AuthConfig{
		Verify: func(_ context.Context, token string) error {
			if token != "eyJhbGciOi.J9.own-token" {
				return errors.New("unknown")
			}
			return nil
		},
	}})
	own := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "eyJhbGciOi.J9.own-token"})
	conn := dial(t, cluster.ConnectionString(), evenkeel.WithTLS(cluster.TLS()), evenkeel.WithTokenSource(own))
	if err := clients(within(t), conn); err != nil {
		t.Errorf("a call: %v", err)
	}
	wrong := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "another"})
	_, err := evenkeel.Dial(within(t), cluster.ConnectionString(), evenkeel.WithTLS(cluster.TLS()), evenkeel.WithTokenSource(wrong))
	if !errors.Is(err, evenkeel.ErrUnauthenticated) {
		t.Errorf("Dial with a wrong token returned %v, want %v", err, evenkeel.ErrUnauthenticated)
	}
}

// A token source that hangs holds nothing up for longer than its limit, and Close not at all.
func TestATokenSourceThatHangsDoesNotHoldUpClose(t *testing.T) {
	t.Parallel()
	cluster := guarded(t, evenkeeltest.Config{Servers: 1})
	asked, release := make(chan struct{}, 16), make(chan struct{})
	t.Cleanup(func() { close(release) })
	own := tokenFunc(func() (*oauth2.Token, error) {
		asked <- struct{}{}
		<-release
		return nil, errors.New("released")
	})
	conn, err := evenkeel.New("chronicle://"+cluster.Servers[0].Addr(), evenkeel.WithTLS(cluster.TLS()), evenkeel.WithTokenSource(own))
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-asked:
	case <-within(t).Done():
		t.Fatal("the source was not asked")
	}
	began := time.Now()
	if err := conn.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if d := time.Since(began); d > slack {
		t.Errorf("Close took %v", d)
	}
}

type tokenFunc func() (*oauth2.Token, error)

func (f tokenFunc) Token() (*oauth2.Token, error) { return f() }

// What a token endpoint does wrong costs an attempt a bounded time, and the words say what it was.
func TestFaultsOfATokenEndpointFailTheAttemptInTime(t *testing.T) {
	t.Parallel()
	json := "application/json"
	tests := []struct {
		name  string
		fault evenkeeltest.HTTPFault
		want  string
	}{
		{"down", evenkeeltest.TokenDown(), "unexpected status (status 503)"},
		{"broken off", evenkeeltest.HTTPFault{Abort: true}, "no connection, or a broken one: the server broke the request off"},
		{"refused", evenkeeltest.TokenRefused(), "the credentials were refused (invalid_client, status 401)"},
		{"silent", evenkeeltest.HTTPFault{Hang: true}, "no answer in time"},
		{"a page of HTML", evenkeeltest.HTMLPage(), "not that of a token endpoint"},
		{"a token that is a number", evenkeeltest.HTTPFault{ContentType: json, Body: `{"access_token":7}`}, "not that of a token endpoint"},
		{"an endless body", evenkeeltest.HTTPFault{ContentType: json, Body: "{", Endless: true}, "longer than 64 KiB"},
		{"a slow drip", evenkeeltest.HTTPFault{ContentType: json, Body: strings.Repeat(" ", 100), Drip: 200 * time.Millisecond}, "no answer in time"},
		{"10 MB of headers", evenkeeltest.HTTPFault{HeaderBytes: 10 << 20, Body: "{}"}, "for a token: "},
		{"a redirect", evenkeeltest.HTTPFault{Location: "https://127.0.0.1:1/connect/token"}, "redirect"},
		{"an echo of the secret", evenkeeltest.HTTPFault{Status: 400, ContentType: json, Body: `{"error":"` + planted + `"}`}, "unexpected status (status 400)"},
		{"no endpoint", evenkeeltest.HTTPFault{Status: 404}, "auth=none"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			live(t)
			cluster := guarded(t, evenkeeltest.Config{Servers: 1})
			cluster.Servers[0].SetFault(evenkeeltest.Fault{Token: tt.fault})
			r := newRecorder()
			conn, err := evenkeel.New(cluster.ConnectionString(), evenkeel.WithTLS(cluster.TLS()), evenkeel.WithEvents(r.record))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close() //nolint:errcheck // it returns nil
			selected := r.await(t, evenkeel.EventSelected, 1)
			failed := r.await(t, evenkeel.EventCandidateFailed, 1)
			if !strings.Contains(failed.Err.Error(), tt.want) || !strings.Contains(failed.Err.Error(), "token ") {
				t.Errorf("failed with %q, want %q", failed.Err, tt.want)
			}
			noSecret(t, failed.Err.Error())
			noSecret(t, conn.Status().String())
			if d := failed.Time.Sub(selected.Time); d > 5*time.Second+slack {
				t.Errorf("the attempt took %v, want 5s at most", d)
			}
			cluster.Servers[0].ClearFaults()
			r.await(t, evenkeel.EventConnected, 1)
		})
	}
}

func TestA401WithoutTrailersFailsTheSessionAsARefusal(t *testing.T) {
	t.Parallel()
	cluster := guarded(t, evenkeeltest.Config{Servers: 1})
	cluster.Servers[0].SetFault(evenkeeltest.Fault{Bare401: true})
	_, err := evenkeel.Dial(within(t), cluster.ConnectionString(), evenkeel.WithTLS(cluster.TLS()))
	if !errors.Is(err, evenkeel.ErrUnauthenticated) {
		t.Errorf("Dial returned %v, want %v", err, evenkeel.ErrUnauthenticated)
	}
}

func TestTokensOnDiskSpareAShortProgramTheRequest(t *testing.T) {
	t.Parallel()
	cluster := guarded(t, evenkeeltest.Config{Servers: 1})
	folder := t.TempDir()
	options := []evenkeel.Option{
		evenkeel.WithTLS(cluster.TLS()), evenkeel.WithoutSession(), evenkeel.WithTokenCache(folder),
	}
	dial(t, cluster.ConnectionString(), options...)
	cluster.Servers[0].SetFault(evenkeeltest.Fault{Token: evenkeeltest.TokenDown()})
	conn := dial(t, cluster.ConnectionString(), options...)
	if err := clients(within(t), conn); err != nil {
		t.Errorf("a call with the token of the disk: %v", err)
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/contract/adminpb"
	"github.com/evenkeel-go/evenkeel/server"
)

const adminSecret = "correct horse battery staple"

func administered(loopback bool, secret string) server.Config {
	return server.Config{Admin: server.AdminConfig{Secret: connstring.NewSecret(secret), Loopback: loopback}}
}

// shed asks for it and returns what was told last.
func shed(ctx context.Context, conn *grpc.ClientConn, request *adminpb.ShedRequest) (last *adminpb.ShedProgress, err error) {
	stream, err := adminpb.NewAdminClient(conn).Shed(ctx, request)
	if err != nil {
		return nil, err
	}
	for {
		progress, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return last, nil
		case err != nil:
			return last, err
		}
		last = progress
	}
}

func TestCommandsAreForAdministrators(t *testing.T) {
	t.Parallel()
	const none = codes.OK
	for name, tt := range map[string]struct {
		config server.Config
		say    []string // the authorization
		want   codes.Code
	}{
		"off":                                 {server.Config{}, nil, codes.Unimplemented},
		"off, with a token":                   {server.Config{}, []string{"Bearer " + adminSecret}, codes.Unimplemented},
		"the secret":                          {administered(false, adminSecret), []string{"Bearer " + adminSecret}, none},
		"the secret, in another case":         {administered(false, adminSecret), []string{"bearer " + adminSecret}, none},
		"no secret":                           {administered(false, adminSecret), nil, codes.Unauthenticated},
		"a part of it":                        {administered(false, adminSecret), []string{"Bearer correct"}, codes.Unauthenticated},
		"an empty one":                        {administered(false, adminSecret), []string{"Bearer "}, codes.Unauthenticated},
		"twice":                               {administered(false, adminSecret), []string{"Bearer " + adminSecret, "Bearer " + adminSecret}, codes.Unauthenticated},
		"another scheme":                      {administered(false, adminSecret), []string{"Basic " + adminSecret}, codes.Unauthenticated},
		"loopback, no secret":                 {administered(true, ""), nil, none},
		"loopback, a secret too many":         {administered(true, ""), []string{"Bearer anything"}, none},
		"loopback or the secret, none":        {administered(true, adminSecret), nil, none},
		"loopback or the secret, a wrong one": {administered(true, adminSecret), []string{"Bearer wrong"}, codes.Unauthenticated},
	} {
		for _, plaintext := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, plaintext=%v", name, plaintext), func(t *testing.T) {
				t.Parallel()
				config := tt.config
				config.Plaintext = plaintext
				f := serveTCP(t, config)
				connect(t, f.grpcConn(t), named("one"))
				_, err := shed(with(t.Context(), tt.say...), f.grpcConn(t), &adminpb.ShedRequest{Count: 1})
				if got := status.Code(err); got != tt.want {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if got, want := f.Registry().Stats().ShedClients, uint64(0); (got == want) != (tt.want != none) {
					t.Errorf("%d clients were sent away with %v", got, err)
				}
			})
		}
	}
}

// The tokens of clients are no good for commands, and the secret of commands is none of clients.
func TestClientsAreNoAdministrators(t *testing.T) {
	t.Parallel()
	config := administered(false, adminSecret)
	config.Auth = newAuth(t, server.AuthConfig{})
	g := startGuarded(t, config)
	_, err := shed(with(t.Context(), "Bearer "+g.token(t)), g.grpcConn(t), &adminpb.ShedRequest{Count: 1})
	if got := status.Code(err); got != codes.Unauthenticated {
		t.Errorf("with a client's token: got %v, want %v", err, codes.Unauthenticated)
	}
	if got := status.Code(g.call(with(t.Context(), "Bearer "+adminSecret))); got != codes.Unauthenticated {
		t.Errorf("a client's call with the secret of commands: got %v, want %v", got, codes.Unauthenticated)
	}
	if _, err := shed(with(t.Context(), "Bearer "+adminSecret), g.grpcConn(t), &adminpb.ShedRequest{Count: 1}); err != nil {
		t.Errorf("with the secret: %v", err)
	}
}

func TestWrongSecretsCannotBeTriedForever(t *testing.T) {
	t.Parallel()
	f := serveTCP(t, administered(false, adminSecret))
	conn := f.grpcConn(t)
	for i := range 100 {
		_, err := shed(with(t.Context(), "Bearer wrong"), conn, &adminpb.ShedRequest{Count: 1})
		if strings.Contains(err.Error(), adminSecret) {
			t.Fatalf("the error tells the secret: %v", err)
		}
		if status.Code(err) == codes.ResourceExhausted {
			if i < 10 {
				t.Errorf("refused after %d wrong ones, want 10 at least", i)
			}
			if _, err := shed(with(t.Context(), "Bearer "+adminSecret), conn, &adminpb.ShedRequest{Count: 1}); status.Code(err) != codes.ResourceExhausted {
				t.Errorf("the right one then: got %v, want %v: or it could still be found", err, codes.ResourceExhausted)
			}
			return
		}
	}
	t.Error("a hundred wrong secrets, and still more are taken")
}

func TestAdminConfigsThatCannotBeMeantAreRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		config server.AdminConfig
		want   string
	}{
		"nobody":         {server.AdminConfig{}, "nobody could give commands"},
		"a short secret": {server.AdminConfig{Secret: connstring.NewSecret("planted"), Loopback: true}, "the secret has 7 bytes, want 16 at least"},
		"a line break":   {server.AdminConfig{Secret: connstring.NewSecret("planted planted planted\n")}, "other than printable ASCII"},
		"a letter":       {server.AdminConfig{Secret: connstring.NewSecret("planted planted plantéd")}, "other than printable ASCII"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := server.NewRegistry(server.RegistryConfig{}).RegisterAdmin(grpc.NewServer(), tt.config)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "planted") {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if _, err := server.New(server.Config{Admin: tt.config}); (err == nil) != (tt.config == server.AdminConfig{}) {
				t.Errorf("a server: got %v", err)
			}
		})
	}
}

func TestShedRequestsThatCannotBeMeantAreRefused(t *testing.T) {
	t.Parallel()
	f := serveTCP(t, administered(true, ""))
	conn := f.grpcConn(t)
	for name, tt := range map[string]struct {
		request *adminpb.ShedRequest
		want    codes.Code
		text    string
	}{
		"nothing":         {&adminpb.ShedRequest{}, codes.InvalidArgument, "the count must be 1 or more"},
		"a negative one":  {&adminpb.ShedRequest{Count: -1}, codes.InvalidArgument, "the count must be 1 or more"},
		"a huge one":      {&adminpb.ShedRequest{Count: 1 << 40}, codes.InvalidArgument, "the count must be 1 or more"},
		"both":            {&adminpb.ShedRequest{Count: 1, ToMean: true}, codes.InvalidArgument, "exclude each other"},
		"a negative time": {&adminpb.ShedRequest{Count: 1, Over: durationpb.New(-1)}, codes.InvalidArgument, "the time must lie between"},
		"a long time":     {&adminpb.ShedRequest{Count: 1, Over: durationpb.New(25 * time.Hour)}, codes.InvalidArgument, "the time must lie between"},
		"no time":         {&adminpb.ShedRequest{Count: 1, Over: &durationpb.Duration{Seconds: 1, Nanos: -1}}, codes.InvalidArgument, "the time is none"},
		"no peers":        {&adminpb.ShedRequest{ToMean: true}, codes.FailedPrecondition, "knows of no peers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := shed(t.Context(), conn, tt.request)
			if status.Code(err) != tt.want || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want %v with %q", err, tt.want, tt.text)
			}
		})
	}
}

func TestShedTellsHowFarItIs(t *testing.T) {
	t.Parallel()
	f := serveTCP(t, administered(true, ""))
	conn := f.grpcConn(t)
	for _, id := range []string{"a", "b", "c"} {
		connect(t, conn, named(id))
	}
	stream, err := adminpb.NewAdminClient(conn).Shed(t.Context(), &adminpb.ShedRequest{Count: 2})
	if err != nil {
		t.Fatal(err)
	}
	for want := range int64(3) {
		got, err := stream.Recv()
		if err != nil || got.GetTold() != want || got.GetPlanned() != 2 {
			t.Errorf("got %v, %v, want %d of 2", got, err, want)
		}
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the end", err)
	}
	f.Registry().Close()
	if _, err := shed(t.Context(), conn, &adminpb.ShedRequest{Count: 2}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("when it is closed: got %v, want %v", err, codes.FailedPrecondition)
	}
}

// When the caller goes no more streams are ended, and the server can shed again.
func TestShedEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	f := serveTCP(t, administered(true, ""))
	conn := f.grpcConn(t)
	first := connect(t, conn, named("a"))
	connect(t, conn, named("b"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := adminpb.NewAdminClient(conn).Shed(ctx, &adminpb.ShedRequest{Count: 2, Over: durationpb.New(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	checkEnd(t, first, contract.ReasonShed, shedText)
	if _, err := f.Registry().Shed(1, 0); !errors.Is(err, server.ErrShedding) {
		t.Errorf("beside it: got %v, want %v", err, server.ErrShedding)
	}
	cancel()
	eventually(t, "the end of the shedding", func() bool {
		_, err := f.Registry().Shed(0, 0)
		return err == nil
	})
	if got := f.Registry().Count(); got != 1 {
		t.Errorf("count: got %d, want 1", got)
	}
}

func TestShedToTheMean(t *testing.T) {
	t.Parallel()
	neighbours, cluster := serveCluster(t, 3, server.RegistryConfig{}) // of one client each
	conn := cluster[0].grpcConn(t)
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		connect(t, conn, named(id))
	}
	// 7, 1 and 1: the mean is 3.
	got, err := shed(t.Context(), conn, &adminpb.ShedRequest{ToMean: true})
	if err != nil || got.GetTold() != 4 || got.GetAll() != 9 || got.GetServers() != 3 {
		t.Errorf("got %v, %v, want 4 of 9 on 3 servers", got, err)
	}
	if got, err := shed(t.Context(), cluster[1].grpcConn(t), &adminpb.ShedRequest{ToMean: true}); err != nil || got.GetPlanned() != 0 {
		t.Errorf("below the mean: got %v, %v, want nothing to do", got, err)
	}
	neighbours.set(t, cluster[0].addr, cluster[1].addr, "127.0.0.1:1")
	if _, err := shed(t.Context(), conn, &adminpb.ShedRequest{ToMean: true}); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("with a peer that does not answer: got %v, want %v that names it", err, codes.FailedPrecondition)
	}
}

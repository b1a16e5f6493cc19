// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/contract/adminpb"
)

// scriptedAdmin answers each shedding with the same.
type scriptedAdmin struct {
	adminpb.UnimplementedAdminServer
	tells []*adminpb.ShedProgress
	err   error
}

func (a *scriptedAdmin) Shed(_ *adminpb.ShedRequest, stream grpc.ServerStreamingServer[adminpb.ShedProgress]) error {
	for _, told := range a.tells {
		if err := stream.Send(told); err != nil {
			return err
		}
	}
	return a.err
}

// serveAdmins serves one, without TLS, and returns its address.
func serveAdmins(t *testing.T, a *scriptedAdmin) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	adminpb.RegisterAdminServer(s, a)
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func TestShedTellsWhatCameOfIt(t *testing.T) {
	t.Parallel()
	// Of so many clients of the server so many are to go, and then so many have gone.
	progress := func(connected, planned int64, told ...int64) []*adminpb.ShedProgress {
		tells := []*adminpb.ShedProgress{{Planned: planned, Connected: connected}}
		for _, n := range told {
			tells = append(tells, &adminpb.ShedProgress{Told: n, Planned: planned, Connected: connected - n + 1})
		}
		return tells
	}
	toMean := func(tells []*adminpb.ShedProgress) []*adminpb.ShedProgress {
		for _, told := range tells {
			told.All, told.Servers = 60, 3
		}
		return tells
	}
	refusal := status.Error(codes.FailedPrecondition, "clients are being shed already")
	for name, tt := range map[string]struct {
		flags  string
		tells  []*adminpb.ShedProgress
		err    error
		stdout string
		stderr string
	}{
		"all that was planned": {"--count 2", progress(22, 2, 1, 2), nil, "told 2 of 2 to move; ADDR had 22 clients before that, which leaves 20\n", ""},
		"more than there are": {
			"--count 1000", progress(2, 2, 1, 2), nil,
			"ADDR has 2 clients only, --count is 1000\ntold 2 of 2 to move; ADDR had 2 clients before that, which leaves 0\n", "",
		},
		"one client": {"--count 1", progress(1, 1, 1), nil, "told 1 of 1 to move; ADDR had 1 client before that, which leaves 0\n", ""},
		"to the mean": {
			"--to-mean", toMean(progress(21, 1, 1)), nil,
			"60 clients on 3 servers\ntold 1 of 1 to move; ADDR had 21 clients before that, which leaves 20\n", "",
		},
		"nothing above the mean": {
			"--to-mean", toMean(progress(20, 0)), nil,
			"60 clients on 3 servers\nnothing to do: ADDR has 20 clients, which is not more than its share\n", "",
		},
		"nobody there":                {"--count 3", progress(0, 0), nil, "nothing to do: ADDR has no clients\n", ""},
		"refused after the plan":      {"--count 5", progress(19, 5), refusal, "", "refuses: clients are being shed already"},
		"refused before the plan":     {"--count 5", nil, refusal, "", "refuses: clients are being shed already"},
		"refused after some had gone": {"--count 5", progress(19, 5, 1, 2), refusal, "told 2 of 5 to move; ADDR had 19 clients before that, which leaves 17\n", "refuses: "},
		"refused, as JSON":            {"--count 5 --json", progress(19, 5), refusal, "", "refuses: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := serveAdmins(t, &scriptedAdmin{tells: tt.tells, err: tt.err})
			got := call(t, nil, "", append([]string{"shed", address, "--plaintext"}, strings.Fields(tt.flags)...)...)
			if want := strings.ReplaceAll(tt.stdout, "ADDR", address); got.stdout != want {
				t.Errorf("got %q, want %q", got.stdout, want)
			}
			want := exitDone
			if tt.err != nil {
				want = exitFailed
			}
			if got.status != want || !strings.Contains(got.stderr, tt.stderr) || tt.stderr == "" && got.stderr != "" {
				t.Errorf("status %d, want %d, and %q, want %q in it", got.status, want, got.stderr, tt.stderr)
			}
		})
	}
}

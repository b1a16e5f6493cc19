// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend

package test_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
	"github.com/evenkeel-go/evenkeel/server"
)

const (
	stockID     = "stock"
	stockSecret = "p@ss/w+rd"
	// jwtLike is a token in the form of an identity provider's.
	jwtLike = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJzdG9jayJ9.c2lnbmF0dXJlLXRoYXQtbm9ib2R5LWNoZWNrcw"
)

// Clients in the wire shapes of the five stock clients, some of which speak HTTP/1.1 and some HTTP/2, get their token in the
// ways that stock clients have, and hold a session with it.
func TestStockClientsConnectWithTokens(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("every client needs a loopback address of its own")
	}
	opaque := opaqueServers(t)
	jwt := jwtServers(t)
	for i, tt := range []struct {
		name      string
		hosts     []string
		fromFirst bool
	}{
		{"an opaque token of the chosen server", opaque, false},
		{"an opaque token of the first host", opaque, true},
		{"a token like a JWT of the chosen server", jwt, false},
		{"a token like a JWT of the first host", jwt, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var fleet []*stockClient
			for j, shape := range stockShapes() {
				c := newStockClient(shape, false, "127.1."+number(i+1)+"."+number(j+10), tt.hosts)
				c.tokens = &stockTokens{id: stockID, secret: stockSecret, fromFirst: tt.fromFirst}
				fleet = append(fleet, c)
			}
			stay(t, fleet)
		})
	}
	t.Run("a wrong secret", func(t *testing.T) {
		t.Parallel()
		h := newStockHTTP(stockShapes()[0], opaque[0], "127.1.9.9")
		defer h.close()
		if token, err := h.token(within(t), stockID, stockSecret+"x"); err == nil {
			t.Errorf("got a token of %d bytes, want a refusal", len(token))
		}
	})
}

// stay runs the clients until each has stayed for some keep-alives.
func stay(t *testing.T, fleet []*stockClient) {
	t.Helper()
	ctx := within(t)
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, len(fleet))
	for _, c := range fleet {
		go func() { ended <- c.live(running) }()
	}
	began := time.Now()
	for _, c := range fleet {
		for s, changed := c.snapshot(); !s.up || s.answers < stockStay; s, changed = c.snapshot() {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
			}
			t.Errorf("%s: %v; its attempts failed with %v", c, ctx.Err(), c.failures())
			break
		}
		if failures := c.failures(); len(failures) > 0 {
			t.Errorf("%s: its attempts failed with %v, want none", c, failures)
		}
	}
	t.Logf("%d clients have stayed for %d keep-alives after %v", len(fleet), stockStay, ms(time.Since(began)))
	stop()
	for range fleet {
		if err := <-ended; err != nil {
			t.Errorf("stock client: %v", err)
		}
	}
}

// opaqueServers are servers whose tokens are good on each of them.
func opaqueServers(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"clients": stockID + ":" + stockSecret + "\n", "key": "a key of tokens that nobody can guess\n"}
	for name, content := range files {
		files[name] = filepath.Join(dir, name)
		if err := os.WriteFile(files[name], []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var hosts []string
	for n := 11; n <= 13; n++ {
		s := serve(within(t), t, loopback(n), "--auth", "token", "--clients", files["clients"], "--token-key", files["key"])
		hosts = append(hosts, s.Listening)
	}
	return hosts
}

// jwtServers are servers that give a token of an identity provider, and accept nothing else.
func jwtServers(t *testing.T) []string {
	t.Helper()
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 3, Auth: &server.AuthConfig{
		Clients: []server.AuthClient{{ID: stockID, Secret: connstring.NewSecret(stockSecret)}},
		Verify: func(_ context.Context, token string) error {
			if token != jwtLike {
				return errors.New("unknown")
			}
			return nil
		},
	}})
	var hosts []string
	for _, s := range cluster.Servers {
		s.SetFault(evenkeeltest.Fault{Token: evenkeeltest.TokenOf(jwtLike, "3600")})
		hosts = append(hosts, s.Addr())
	}
	return hosts
}

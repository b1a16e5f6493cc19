// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/server"
)

const (
	// clientsVariable is the environment variable that may hold the list of clients.
	clientsVariable = "EVENKEEL_CLIENTS"
	// maxSecretsFile is how long a file with secrets in it may be.
	maxSecretsFile = 1 << 20

	authNone  = "none"
	authToken = "token"
)

// serveAuth is the flags that say who may call the server.
type serveAuth struct {
	mode    string
	clients string
	key     string
	dev     bool
	life    time.Duration
	chosen  bool // --auth was given
}

func (a *serveAuth) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&a.mode, "auth", authNone, `who may call: "none" lets everybody, "token" lets clients that got a token for their credentials`)
	flags.StringVar(&a.clients, "clients", "", "with --auth token, the clients: a file with an id, a colon and a secret in each line")
	flags.StringVar(&a.key, "token-key", "", "with --auth token, a file with a key of 32 bytes or more: tokens are then valid on all servers that have it")
	flags.BoolVar(&a.dev, "dev", false, "with --auth token, let in the development client, whose secret everybody knows")
	flags.DurationVar(&a.life, "token-life", time.Hour, "how long a token is valid, at least 1s")
}

// authenticator makes what lets clients in; nil lets everybody in.
func (a *serveAuth) authenticator(c *console, log *slog.Logger) (*server.Authenticator, error) {
	switch a.mode {
	case authNone:
		if a.clients != "" || a.key != "" || a.dev {
			return nil, usage("--clients, --token-key and --dev are for --auth token")
		}
		if _, found := c.getenv(clientsVariable); found && !a.chosen {
			return nil, usage("%s is for --auth token: give that too, or unset it, or give --auth none to let everybody in", clientsVariable)
		}
		return nil, nil
	case authToken:
	default:
		return nil, usage(`--auth must be "none" or "token"`)
	}
	if a.life < time.Second {
		return nil, usage("--token-life must be 1s or more")
	}
	clients, err := a.list(c)
	if err != nil {
		return nil, err
	}
	if a.dev {
		clients = append(clients, developmentClient())
	}
	if len(clients) == 0 {
		return nil, usage("--auth token needs clients: a file with --clients, the variable %s, or, in development, --dev", clientsVariable)
	}
	key, err := a.tokenKey(c)
	if err != nil {
		return nil, err
	}
	auth, err := server.NewAuthenticator(server.AuthConfig{Clients: clients, TokenKey: key, TokenLife: a.life, Logger: log})
	if err != nil {
		return nil, &usageError{err: fmt.Errorf("the clients cannot be used: %s", sentence(err))}
	}
	return auth, nil
}

// list reads the clients from the file, or else from the environment.
func (a *serveAuth) list(c *console) ([]server.AuthClient, error) {
	var text string
	from := "the --clients file"
	switch variable, found := c.getenv(clientsVariable); {
	case a.clients != "":
		if found {
			c.complain("warning: the clients are those of --clients, and %s is not used", clientsVariable)
		}
		var err error
		if text, err = readSecrets(c, "--clients", a.clients, "a client in each line"); err != nil {
			return nil, err
		}
	case found:
		text, from = variable, clientsVariable
	default:
		return nil, nil
	}
	clients, err := server.ParseClients(text)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be used: %s", from, sentence(err))
	}
	return clients, nil
}

// tokenKey reads the key that servers share, if there is one. A final line break is not part of it.
func (a *serveAuth) tokenKey(c *console) (connstring.Secret, error) {
	if a.key == "" {
		return connstring.Secret{}, nil
	}
	text, err := readSecrets(c, "--token-key", a.key, "the key in it")
	if err != nil {
		return connstring.Secret{}, err
	}
	text = strings.TrimRight(text, "\r\n")
	if text == "" {
		return connstring.Secret{}, errors.New("the --token-key file is empty: write 32 bytes or more into it that nobody can guess")
	}
	return connstring.NewSecret(text), nil
}

// readSecrets reads the file of a flag, and says so when others can as well. holds is what it should have in it. The
// path is not shown: it may be a secret itself that went astray.
func readSecrets(c *console, flag, path, holds string) (string, error) {
	f, err := os.Open(path) //nolint:gosec // the user says which file
	if err != nil {
		return "", fmt.Errorf("the %s file cannot be read: %w; give the path of a file with %s", flag, pathless(err), holds)
	}
	defer func() { _ = f.Close() }() // only read
	if info, err := f.Stat(); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		c.complain("warning: others can read the %s file, which has secrets in it: chmod 600 it", flag)
	}
	content, err := io.ReadAll(io.LimitReader(f, maxSecretsFile+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("the %s file cannot be read: %w", flag, pathless(err))
	case len(content) > maxSecretsFile:
		return "", fmt.Errorf("the %s file is longer than 1 MiB", flag)
	}
	return string(content), nil
}

// developmentClient is the client of the development string, as stock development servers have it.
func developmentClient() server.AuthClient {
	rest, _ := strings.CutPrefix(connstring.Development, "chronicle://")
	user, _, _ := strings.Cut(rest, "@")
	id, secret, _ := strings.Cut(user, ":")
	return server.AuthClient{ID: id, Secret: connstring.NewSecret(secret)}
}

// say tells what clients have to do.
func (a *serveAuth) say(c *console) {
	switch {
	case a.mode != authToken:
	case a.dev:
		dev := developmentClient()
		c.tell("clients have to give credentials: %s:%s@ in front of the host will do, for everybody, because of --dev", dev.ID, dev.Secret.Reveal())
	default:
		c.tell("clients have to give their credentials: put user:password@ in front of the host")
	}
}

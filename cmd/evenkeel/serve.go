// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/evenkeel-go/evenkeel/internal/devcert"
	"github.com/evenkeel-go/evenkeel/server"
)

const serveHelp = `
Run one server: the session protocol for gRPC clients, and /connections/count, /connections/reserve and /health over
HTTP, all on one TLS port. It prints where it listens and a connection string for its clients, and serves until it is
interrupted (Ctrl-C) or terminated (SIGTERM).

Then it drains: new clients are sent away, those that are connected are told to move to another server, a few at a time
over --drain-period, and calls are served until the clients have left, or until --drain-limit has passed; what still runs
then has one second more to end. A second signal ends it at once. The exit status is 0 after all of these but a second
signal, which makes it 1; standard error says whether all clients had left.

With --peers, a connection string that names the servers of the cluster, this one among them or not, it lists the clients
of all of them to who asks for the connected clients (GetConnectedClients). Servers that do not answer are left out, and
named in the metadata of the answer and on standard error.

It keeps 1024 reservations, 256 for one address, and bounds connections, clients and requests likewise; programs that
embed the server can set these limits.

With --auth token, calls need a bearer token, which clients get at /connect/token for an id and a secret. The clients are
the lines of the --clients file, or else of the variable ` + clientsVariable + `: an id, a colon and a secret in each; empty
lines and those that begin with # are left out. Let nobody else read that file (chmod 600). The counts, reservations
and /health stay open to all. Tokens are good on the server that gave them; with the same --token-key on all servers they
are good on all, as clients need that ask the first of their servers and go to another. Peers are then asked with the credentials of the --peers string.

The files of --cert and --key are read again when they have changed: a certificate is renewed without a restart. When the
changed ones cannot be used, the certificate before them stays, and standard error says why. The files with
authorities, of --client-ca and --peers-ca, are read at the start only. With --client-ca every client
has to show a certificate, for the counts, reservations and /health as well; peers too then, with certificatePath in the
--peers string.

With --admin or --admin-loopback it takes commands, of which there is one: evenkeel shed. The --admin file holds a secret
of 16 bytes or more, to be shown with each command; with --admin-loopback commands that come over a loopback address need
none. Without either there are no commands.

Without --cert and --key it makes a development certificate for localhost and the listening address, which clients
accept only with skipTlsValidation=true.

With --json, an object as soon as it serves; fields without a value are left
out:

  listening          the address, with the port that was taken for port 0
  connection_string  what clients connect with: by this machine's own address
                     or localhost where the certificate names one of them,
                     else by a name of the certificate, which a warning then
                     tells; with --plaintext clients need --plaintext as well
  name               the name that clients are shown`

const serveExamples = `  evenkeel serve
  evenkeel serve --listen 127.0.0.1:0 --json
  evenkeel serve --auth token --clients clients.txt
  evenkeel serve --listen :35000 --cert node-1.pem --key node-1-key.pem
  evenkeel serve --cert node-1.pem --key node-1-key.pem \
      --peers chronicle+srv://prod.example`

// maxServeCapacity is the largest capacity that clients heed.
const maxServeCapacity = 1_000_000

func newServe(c *console) *cobra.Command {
	s := &serving{console: c}
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Run a server",
		Long:    paragraphs(serveHelp),
		Example: serveExamples,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.auth.chosen = cmd.Flags().Changed("auth")
			return s.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&s.listen, "listen", "127.0.0.1:35000", "the address and port to listen on; port 0 takes a free one")
	flags.StringVar(&s.cert, "cert", "", "the certificate, a PEM file, with intermediate ones behind it")
	flags.StringVar(&s.key, "key", "", "the private key of the certificate, a PEM file")
	flags.StringVar(&s.clientCA, "client-ca", "", "let in only clients with a certificate signed by one of the authorities in this PEM file")
	flags.StringVar(&s.name, "name", "", "the name that clients are shown (default the address)")
	flags.IntVar(&s.capacity, "capacity", 0, "how many clients it takes in proportion to other servers that tell theirs; 0 tells nothing")
	flags.StringVar(&s.peers, "peers", "", "a connection string of the cluster's servers")
	flags.StringVar(&s.peersCA, "peers-ca", "", "trust the root certificates in this PEM file for peers instead of the system's")
	flags.DurationVar(&s.drainPeriod, "drain-period", 5*time.Second, "how long it takes, when the server ends, to tell all clients to move")
	flags.DurationVar(&s.drainLimit, "drain-limit", 30*time.Second, "how long the server then waits for clients to leave; 0 ends it at once")
	flags.BoolVar(&s.plaintext, "plaintext", false, "serve without TLS, for tests and for meshes that encrypt by themselves")
	s.auth.addFlags(flags)
	s.admin.addFlags(flags)
	flags.StringVar(&s.logLevel, "log-level", "info", `what to tell on standard error: "debug" tells also of refused tokens and TLS handshakes, `+
		`"warn" and "error" of less than "info"`)
	flags.BoolVar(&s.asJSON, "json", false, "print JSON")
	return cmd
}

// serving is a run of the command.
type serving struct {
	console   *console
	listen    string
	cert, key string
	clientCA  string
	name      string
	capacity  int
	peers     string
	peersCA   string
	plaintext bool
	asJSON    bool
	logLevel  string
	log       *slog.Logger

	drainPeriod, drainLimit time.Duration

	auth        serveAuth
	admin       serveAdmin
	clientRoots *x509.CertPool
}

// serveReport is the object of serve --json.
type serveReport struct {
	Listening        string `json:"listening"`
	ConnectionString string `json:"connection_string"`
	Name             string `json:"name"`
}

func (s *serving) run(ctx context.Context) error {
	if err := s.check(); err != nil {
		return err
	}
	certificate, err := s.certificate()
	if err != nil {
		return err
	}
	peers, err := s.peersConfig()
	if err != nil {
		return err
	}
	if err := s.readClientRoots(); err != nil {
		return err
	}
	auth, err := s.auth.authenticator(s.console, s.log)
	if err != nil {
		return err
	}
	admin, err := s.admin.config(s.console)
	if err != nil {
		return err
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", s.listen)
	if err != nil {
		return s.cannotListen(err)
	}
	if s.name == "" {
		s.name = listener.Addr().String()
	}
	registry := s.registry(listener.Addr(), peers)
	settings, err := s.settings(listener.Addr(), certificate)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	settings.Registry, settings.Auth, settings.Admin = registry, auth, admin
	srv, err := server.New(settings)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer registry.Close()
	// The port takes connections since Listen: whoever connects upon this line waits for Serve, and gets it.
	if err := s.announce(listener.Addr(), certificate); err != nil {
		return errors.Join(err, listener.Close())
	}
	defer srv.Close()
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		s.end(srv)
	})
	err = srv.Serve(listener)
	if !stop() {
		<-ended // the listener is closed before the server has come to its end
	}
	if ctx.Err() != nil && errors.Is(err, server.ErrClosed) {
		return nil // interrupted before it served
	}
	return err
}

// end ends the server in the way that was asked for. A second signal ends the process meanwhile.
func (s *serving) end(srv *server.Server) {
	if s.drainLimit == 0 {
		srv.Close()
		return
	}
	n := srv.Registry().Count()
	if n > 0 {
		s.console.tell("draining (%d connected, %s at most): a second signal ends it at once", n, s.drainLimit)
	}
	began := time.Now()
	if err := srv.Drain(context.Background()); err != nil {
		s.console.tell("warning: %s", sentence(err))
	} else if n > 0 {
		s.console.tell("drained: all clients had left after %s", shortDuration(time.Since(began)))
	}
}

// check finds what cannot be meant, before anything is opened, and makes the log.
func (s *serving) check() error {
	switch {
	case (s.cert == "") != (s.key == ""):
		return usage("--cert and --key belong together: give both or neither")
	case s.cert != "" && s.plaintext:
		return usage("--plaintext excludes --cert and --key")
	case s.clientCA != "" && s.plaintext:
		return usage("--plaintext excludes --client-ca")
	}
	if s.drainPeriod <= 0 || s.drainLimit < 0 {
		return usage("--drain-period must be more than 0, and --drain-limit 0 or more")
	}
	if err := inRange("capacity", s.capacity, 0, maxServeCapacity); err != nil {
		return err
	}
	level, err := logLevel(s.logLevel)
	if err != nil {
		return err
	}
	s.log = newLog(s.console, level)
	host, port, err := net.SplitHostPort(s.listen)
	if err != nil || strings.Contains(host, "@") {
		return usage("--listen needs an address and a port, such as 127.0.0.1:35000 or [::1]:0")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return usage("the port of --listen must be a number from 0 to 65535")
	}
	return nil
}

// certificate reads the certificate; nil means none was given.
func (s *serving) certificate() (*tls.Certificate, error) {
	if s.cert == "" {
		return nil, nil
	}
	return readKeyPair(s.cert, s.key)
}

// readClientRoots reads whose certificates clients may show; nil means that they need none.
func (s *serving) readClientRoots() (err error) {
	if s.clientCA != "" {
		s.clientRoots, err = readRoots("--client-ca", s.clientCA)
	}
	return err
}

// registry makes what knows the clients.
func (s *serving) registry(addr net.Addr, peers server.PeersConfig) *server.Registry {
	peers.Self = []string{addr.String()}
	return server.NewRegistry(server.RegistryConfig{
		Name: s.name, Version: readVersion().Version, DrainPeriod: s.drainPeriod, Peers: peers, Capacity: s.capacity,
		Logger: s.log,
	})
}

// settings say how the port is served.
func (s *serving) settings(addr net.Addr, certificate *tls.Certificate) (server.Config, error) {
	config := server.Config{Plaintext: s.plaintext, DrainLimit: s.drainLimit, Logger: s.log}
	if s.plaintext {
		return config, nil
	}
	config.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if s.clientRoots != nil {
		config.TLS.ClientAuth, config.TLS.ClientCAs = tls.RequireAndVerifyClientCert, s.clientRoots
	}
	if certificate != nil {
		config.CertFile, config.KeyFile = s.cert, s.key
		return config, nil
	}
	// The server could make one by itself, and would warn of what announce says.
	development, err := devcert.New(hostOf(addr))
	config.TLS.Certificates = []tls.Certificate{development}
	return config, err
}

// announce says where the server is and how to reach it.
func (s *serving) announce(addr net.Addr, certificate *tls.Certificate) error {
	cs, note, err := reach(addr, certificate, s.plaintext)
	if err != nil {
		return err
	}
	if note != "" {
		s.console.tell("warning: %s", note)
	}
	switch {
	case s.plaintext:
		s.console.tell("serving without TLS: clients need --plaintext")
	case certificate == nil:
		s.console.tell("serving with a development certificate made for this run: clients have to skip its validation")
	}
	if s.clientRoots != nil {
		s.console.tell("clients have to show a certificate: certificatePath in the connection string, or --cert of curl")
	}
	s.auth.say(s.console)
	if s.asJSON {
		s.console.object(serveReport{Listening: addr.String(), ConnectionString: cs.String(), Name: s.name})
	} else {
		s.console.printf("listening on %s", addr)
		s.console.printf("connect with %s", cs)
	}
	// A server that nobody was told of would wait for ever.
	return s.console.out.failure
}

// cannotListen says what to do when the port cannot be had.
func (s *serving) cannotListen(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s is taken by another program: stop that one, or give another --listen (port 0 takes a free port)", s.listen)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s is no address of this machine: give one of its own, or only :PORT for all of them", s.listen)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("this user may not listen on %s: give a port from 1024 on", s.listen)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	return fmt.Errorf("cannot listen on %s: %w; give another --listen", s.listen, err)
}

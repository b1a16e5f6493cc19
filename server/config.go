// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/evenkeel-go/evenkeel/internal/certerr"
	"github.com/evenkeel-go/evenkeel/internal/certfile"
	"github.com/evenkeel-go/evenkeel/internal/devcert"
)

// Config says what a server serves and how. The zero value is a server with a registry of its own and a development
// certificate. Zero and negative numbers mean their defaults. New copies it.
type Config struct {
	// Registry knows the clients; nil means one of the server's own, with its defaults, that Close closes too.
	Registry *Registry

	// TLS holds the certificate and whatever else is to be set, such as ClientAuth and ClientCAs for clients that have to
	// show a certificate of their own, on the anonymous paths too. Nil means a development certificate, made on the fly
	// and announced in the log; so does one without a certificate where DevelopmentNames are set. ALPN and a minimum of
	// TLS 1.2 are seen to by the server.
	TLS *tls.Config
	// CertFile and KeyFile are a certificate, with intermediate ones behind it, and its private key, both in PEM form and
	// no other. They are read by New, and again when they have changed, during a handshake and once a second at most: a
	// certificate is renewed without a restart. When the changed files cannot be used, the certificate before them stays
	// and the log says why. With them TLS, where it is set, holds whatever else there is to set, and no certificate; what
	// is set there, such as ClientCAs, is not read again. An empty KeyFile means that the key is in CertFile.
	CertFile, KeyFile string
	// DevelopmentNames are further names and IP addresses for the development certificate, such as the listen address.
	DevelopmentNames []string
	// Plaintext serves without TLS: gRPC, HTTP/1.1 and HTTP/2 by prior knowledge, all through net/http. It is meant for
	// tests and for meshes that encrypt, and cannot be set together with TLS.
	Plaintext bool

	// Auth decides who may call. Nil lets everybody. With it gRPC calls and the requests for Handler need a bearer token;
	// /connections/count, /connections/reserve, /health, the token endpoint and the gRPC methods that a client needs
	// before it has a token stay anonymous, as on a stock server. Reflection needs a token then.
	Auth *Authenticator

	// Admin says who may give commands to the running server, as "evenkeel shed" does. The zero value lets nobody.
	Admin AdminConfig

	// Handler answers the HTTP requests that the registry does not; nil means 404.
	Handler http.Handler
	// GRPCOptions are added to the server's own and win over them, save for grpc.Creds: TLS is the listener's.
	GRPCOptions []grpc.ServerOption
	// Logger gets what an operator should know; nil means silence.
	Logger *slog.Logger

	// DrainLimit is how long Drain waits for clients to leave, from its beginning. Default 30 s. It should be longer than
	// the registry's DrainPeriod: the clients that were not told by then are told all at once.
	DrainLimit time.Duration

	// MaxConcurrentStreams bounds the open calls on one connection. Default 1000.
	MaxConcurrentStreams uint32
	// MaxConnections bounds the open connections; beyond it new ones are closed. Default 65536.
	MaxConnections int
	// MaxConnectionsPerAddress is the same for one peer address. Default 16384: many clients may be behind one address.
	MaxConnectionsPerAddress int
	// MaxRequests bounds the HTTP requests that are answered at a time, once for the registry's own paths and once for
	// those of Handler; beyond it they get 503. It does not concern gRPC calls. Default 4096.
	MaxRequests int
	// MaxRequestsPerAddress is the same for one peer address. Default 1024.
	MaxRequestsPerAddress int
	// HandshakeTimeout is how long a peer may take for its TLS handshake, and again to say which protocol it speaks.
	// Default 10 s.
	HandshakeTimeout time.Duration
	// MaxHandshakes bounds the handshakes going on at a time; beyond it new connections are closed. Default 4096.
	MaxHandshakes int
	// MaxHandshakesPerAddress is the same for one peer address. Default 1024.
	MaxHandshakesPerAddress int
	// IdleTimeout is how long an HTTP connection may be open without a request. It does not concern gRPC's own
	// connections, which may be idle for ever. Default 5 min with TLS; none with Plaintext, where the connections of gRPC
	// clients cannot be told from the rest.
	IdleTimeout time.Duration
}

// withDefaults returns the configuration with its defaults filled in, save for Registry and TLS.
func (c Config) withDefaults() Config {
	if c.Handler == nil {
		c.Handler = http.NotFoundHandler()
	}
	if c.Auth != nil {
		c.Handler = c.Auth.Require(c.Handler)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.DrainLimit = positiveOr(c.DrainLimit, 30*time.Second)
	c.MaxConcurrentStreams = positiveOr(c.MaxConcurrentStreams, 1000)
	c.MaxConnections = positiveOr(c.MaxConnections, 65536)
	c.MaxConnectionsPerAddress = positiveOr(c.MaxConnectionsPerAddress, 16384)
	c.MaxRequests = positiveOr(c.MaxRequests, 4096)
	c.MaxRequestsPerAddress = positiveOr(c.MaxRequestsPerAddress, 1024)
	c.HandshakeTimeout = positiveOr(c.HandshakeTimeout, 10*time.Second)
	c.MaxHandshakes = positiveOr(c.MaxHandshakes, 4096)
	c.MaxHandshakesPerAddress = positiveOr(c.MaxHandshakesPerAddress, 1024)
	if !c.Plaintext {
		c.IdleTimeout = positiveOr(c.IdleTimeout, 5*time.Minute)
	}
	c.GRPCOptions = slices.Clone(c.GRPCOptions)
	return c
}

// validate reports everything that cannot be meant.
func (c Config) validate() error {
	var faults []error
	if c.Plaintext && c.TLS != nil {
		faults = append(faults, errors.New("server config: Plaintext and TLS are both set"))
	}
	if c.Plaintext && (c.CertFile != "" || c.KeyFile != "") {
		faults = append(faults, errors.New("server config: Plaintext and certificate files are both set"))
	}
	if c.KeyFile != "" && c.CertFile == "" {
		faults = append(faults, errors.New("server config: KeyFile is set, and CertFile is not"))
	}
	if len(c.DevelopmentNames) > 0 && (c.Plaintext || c.CertFile != "" || c.TLS != nil && c.hasCertificate()) {
		faults = append(faults, errors.New("server config: DevelopmentNames are set, but there is no development certificate"))
	}
	if c.CertFile != "" && c.TLS != nil && (len(c.TLS.Certificates) > 0 || c.TLS.GetCertificate != nil) {
		faults = append(faults, errors.New("server config: TLS has a certificate, and CertFile is set"))
	}
	if c.TLS != nil && c.CertFile == "" && len(c.DevelopmentNames) == 0 && !c.hasCertificate() {
		faults = append(faults, errors.New("server config: TLS has no certificate"))
	}
	if c.Admin != (AdminConfig{}) {
		faults = append(faults, c.Admin.validate())
	}
	return errors.Join(faults...)
}

// hasCertificate says that TLS, which is set, has a certificate.
func (c Config) hasCertificate() bool {
	return len(c.TLS.Certificates) > 0 || c.TLS.GetCertificate != nil || c.TLS.GetConfigForClient != nil
}

// tlsConfig returns the TLS settings to serve with: those given, with the certificate of the files where there are any, or a
// development certificate.
func (c Config) tlsConfig() (*tls.Config, error) {
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLS != nil {
		settings = c.TLS.Clone()
	}
	switch {
	case c.CertFile != "":
		var file *certfile.File
		var err error
		changed := func(err error) { c.certificateChanged(file, err) }
		file, err = certfile.Load(certfile.Config{Cert: c.CertFile, Key: c.KeyFile, PEM: true, Changed: changed})
		if err != nil {
			return nil, fmt.Errorf("server config: %w", err)
		}
		c.doubt(file)
		settings.GetCertificate = file.ForServer
		return settings, nil
	case c.TLS != nil && c.hasCertificate():
		return settings, nil
	}
	certificate, err := devcert.New(c.DevelopmentNames...)
	if err != nil {
		return nil, fmt.Errorf("make a development certificate: %w", err)
	}
	c.Logger.Warn("no certificate given: serving with a development certificate that no client has a reason to trust",
		slog.Any("names", append(certificate.Leaf.DNSNames, texts(certificate.Leaf.IPAddresses)...)),
		slog.Time("expires", certificate.Leaf.NotAfter))
	settings.Certificates = []tls.Certificate{certificate}
	return settings, nil
}

// certificateChanged logs what became of certificate files that have changed. It is called during handshakes.
func (c Config) certificateChanged(file *certfile.File, err error) {
	if err != nil {
		c.Logger.Error("the changed certificate cannot be used, the one before it stays in use", slog.Any("error", err))
		return
	}
	c.Logger.Info("serving with the changed certificate", slog.Time("expires", file.Certificate().Leaf.NotAfter))
	c.doubt(file)
}

// doubt logs why clients are going to refuse the certificate in use.
func (c Config) doubt(file *certfile.File) {
	for _, doubt := range certerr.Doubts(file.Certificate().Leaf, time.Now()) {
		c.Logger.Warn("clients will refuse this server", slog.String("error", doubt))
	}
}

// texts renders values by their String methods.
func texts[T fmt.Stringer](values []T) []string {
	all := make([]string, 0, len(values))
	for _, v := range values {
		all = append(all, v.String())
	}
	return all
}

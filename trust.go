// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/internal/certerr"
	"github.com/evenkeel-go/evenkeel/internal/certfile"
	"github.com/evenkeel-go/evenkeel/internal/dial"
)

// ErrClientCertificate is found by errors.Is in the error of a server that refuses the client's certificate, or wants one and
// got none. Trying that server again does not help before somebody changes something.
var ErrClientCertificate = certerr.ErrClient

// WithNoProxy connects without a proxy. Otherwise HTTPS_PROXY and NO_PROXY, as they are when the Conn is made, decide by the
// name of each server, for probes, reservations, tokens and gRPC alike; localhost and loopback addresses are never proxied.
// The proxy looks the name up, so it is no longer certain that all of one attempt reaches the same address of a name that
// has several. A prober given with WithLeastConnections has a setting of its own.
func WithNoProxy() Option { return optionFunc(func(c *config) { c.noProxy = true }) }

// WithSRVTargetsInDomain uses only those servers of a chronicle+srv:// string whose names lie in the domain that was looked
// up. DNS is rarely signed: who can forge its answers can lead clients to any host that has a certificate for its own name,
// and with this only to those that have one for a name in the domain. It changes nothing for chronicle:// strings, and
// contradicts WithResolver.
func WithSRVTargetsInDomain() Option { return optionFunc(func(c *config) { c.targetsInDomain = true }) }

// tlsConfig is the base of every TLS configuration of the Conn; nil for plaintext.
func (c *config) tlsConfig(cs *connstring.ConnString) *tls.Config {
	if c.plaintext {
		return nil
	}
	t := &tls.Config{}
	if c.tls != nil {
		t = c.tls.Clone()
	}
	t.MinVersion = max(t.MinVersion, tls.VersionTLS12)
	if cs.SkipTLSValidation {
		t.InsecureSkipVerify = true //nolint:gosec // the connection string asks for it in so many words
	}
	if c.certificate != nil {
		t.GetClientCertificate = c.certificate.ForClient
	}
	tellRejections(t)
	return t
}

// checkTrust reports contradictions about TLS.
func (c *config) checkTrust(cs *connstring.ConnString) error {
	var errs []error
	if c.plaintext && c.tls != nil {
		errs = append(errs, errors.New("WithPlaintext contradicts WithTLS: use one of them"))
	}
	if c.tls != nil && (c.tls.ServerName != "" || len(c.tls.NextProtos) > 0) {
		errs = append(errs, errors.New("WithTLS: ServerName and NextProtos are set for each server and must be empty"))
	}
	if c.tls != nil && c.tls.MaxVersion != 0 && c.tls.MaxVersion < tls.VersionTLS12 {
		errs = append(errs, fmt.Errorf("WithTLS: MaxVersion is %s, and TLS 1.2 is the oldest version allowed", tls.VersionName(c.tls.MaxVersion)))
	}
	if cs.CertificatePath != "" && c.plaintext {
		errs = append(errs, errors.New("WithPlaintext contradicts certificatePath in the connection string: use one of them"))
	}
	if cs.CertificatePath != "" && c.tls != nil && (len(c.tls.Certificates) > 0 || c.tls.GetClientCertificate != nil) {
		errs = append(errs, errors.New("WithTLS has a client certificate, and so has the connection string (certificatePath): use one of them"))
	}
	return errors.Join(errs...)
}

// loadCertificate reads the client certificate of the connection string, if there is one. Changed is told when the file has
// changed.
func (c *config) loadCertificate(cs *connstring.ConnString, changed func(error)) error {
	if cs.CertificatePath == "" {
		return nil
	}
	var err error
	c.certificate, err = certfile.Load(certfile.Config{
		Cert: cs.CertificatePath, Password: cs.CertificatePassword, Changed: changed,
	})
	if err != nil {
		return fmt.Errorf("certificatePath: %w", err)
	}
	return nil
}

// proxy decides which servers are reached through a proxy; nil for none.
func (c *config) proxy() *dial.Proxy {
	if c.noProxy {
		return nil
	}
	return dial.ProxyFromEnvironment(c.tls)
}

// certificateChanged tells what became of a client certificate whose file has changed. It is called during handshakes.
func (s *supervisor) certificateChanged(err error) {
	if err != nil {
		err = fmt.Errorf("the one before it stays in use: %w", err)
	}
	s.emit(Event{Kind: EventCertificate, Err: err})
}

// certificateRefused says that a certificate was refused, the server's or the client's.
func certificateRefused(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok || errors.Is(err, ErrClientCertificate)
}

// certificateHint says what a person can do about a certificate that was refused; empty when none was.
func certificateHint(err error) string {
	if errors.Is(err, ErrClientCertificate) {
		return "give a client certificate that the server trusts, with certificatePath in the connection string or with WithTLS"
	}
	if !certificateRefused(err) {
		return ""
	}
	if _, ok := errors.AsType[*rejection](err); ok {
		return "the program's own check refused it: VerifyPeerCertificate or VerifyConnection of WithTLS"
	}
	const orSkip = ", or set skipTlsValidation=true in development"
	switch certerr.FaultOf(err) {
	case certerr.Name:
		return "connect by a name that the certificate has, or have one made for this name" + orSkip
	case certerr.Nameless:
		return "have one made that has this name as a subjectAltName" + orSkip
	case certerr.Early:
		return "set the clock of this machine, or wait" + orSkip
	case certerr.Expired:
		return "renew the certificate, or set the clock of this machine" + orSkip
	case certerr.Usage:
		return "have one made for servers, with the extended key usage serverAuth" + orSkip
	case certerr.Authority:
		return "give the roots that signed the certificate with WithTLS" + orSkip
	default:
		return "have another one made" + orSkip
	}
}

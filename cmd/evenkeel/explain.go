// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/credential"
	"github.com/evenkeel-go/evenkeel/internal/certerr"
	"github.com/evenkeel-go/evenkeel/internal/dial"
)

// adviser words failures for a user of the command, who has flags where a program has options. The zero value advises
// who connects over TLS.
type adviser struct {
	plaintext bool // --plaintext was given
	ca        bool // --ca was given
	auth      connstring.AuthMode
}

// explain words the failure of an attempt, or of one server in it.
func (a adviser) explain(err error) error {
	attempt, ok := errors.AsType[*evenkeel.AttemptError](err)
	switch {
	case !ok:
		if failed, ok := errors.AsType[*evenkeel.EndpointError](err); ok {
			return a.explainServer(failed)
		}
		return err
	case attempt.Err != nil:
		return withAdvice(attempt.Err)
	case len(attempt.Failures) == 1:
		return a.explainServer(attempt.Failures[0])
	case len(attempt.Failures) > 1:
		return fmt.Errorf("%w (and %s failed)", a.explainServer(attempt.Failures[0]), plural(len(attempt.Failures)-1, "more server"))
	}
	return err
}

func (a adviser) explainServer(failed *evenkeel.EndpointError) error {
	advice, cause := a.serverParts(failed)
	return fmt.Errorf("%w%s", cause, advice)
}

// parts words the failure of one server, and what to do about it apart from that.
func (a adviser) parts(err error) (advice string, cause error) {
	if failed, ok := errors.AsType[*evenkeel.EndpointError](err); ok {
		return a.serverParts(failed)
	}
	return "", err
}

func (a adviser) serverParts(failed *evenkeel.EndpointError) (advice string, cause error) {
	advice = a.trustAdvice(failed.Err)
	if advice == "" && failed.Step == evenkeel.StepDial {
		advice = a.tlsAdvice(failed.Err)
	}
	if advice == "" {
		advice = a.credentialAdvice(failed)
	}
	if errors.Is(failed.Err, evenkeel.ErrIncompatible) {
		advice = "; the versions of server and client do not fit: upgrade the older one, or put skipCompatibilityCheck=true into " +
			"the connection string to try all the same"
	}
	if advice == "" && failed.Step > evenkeel.StepDial && errors.Is(failed.Err, context.DeadlineExceeded) {
		advice = "; it takes connections: see that server's log"
	}
	return advice, fmt.Errorf("%s %s: %w", failed.Step, failed.Endpoint.Addr(), brief(failed.Err))
}

// brief drops the operation and the address from an error of package net: the message around it has them.
func brief(err error) error {
	if socket, ok := err.(*net.OpError); ok && socket.Op == "dial" { //nolint:errorlint // only at the top, where nothing else is lost
		return socket.Err
	}
	return err
}

// probeAdvice says what to do about a server that gave no count.
func (a adviser) probeAdvice(o balance.Observation) string {
	if advice := a.trustAdvice(o.Err); advice != "" {
		return advice
	}
	if advice := a.tlsAdvice(o.Err); advice != "" {
		return advice
	}
	failed, _ := errors.AsType[*balance.ProbeError](o.Err)
	name, isName := errors.AsType[*net.DNSError](o.Err)
	switch {
	case isName && name.IsNotFound:
		return "; check the name"
	case isName:
		return "; check the machine's name servers"
	case unreachable(o):
		return "; check that a server runs there and that the port can be reached"
	case errors.Is(o.Err, context.DeadlineExceeded):
		return "; it takes connections: see that server's log"
	case failed != nil && failed.Status > 0:
		return "; something answers there that does not tell its connections: check the port"
	default:
		return "; something takes connections there: check the port"
	}
}

// unreachable says that no connection could be made for a probe: a client would not get one either.
func unreachable(o balance.Observation) bool { return o.Err != nil && !o.Count.Addr.IsValid() }

// tlsAdvice says what to do when one side speaks TLS and the other does not.
func (a adviser) tlsAdvice(err error) string {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok && !a.plaintext {
		return "; the server speaks no TLS: if that is meant, give --plaintext"
	}
	if a.plaintext && endedEarly(err) {
		return "; the server may want TLS: leave out --plaintext"
	}
	return ""
}

// endedEarly says that a server took a connection and ended it without an answer, or answered something that makes no
// sense, as one does that waits for a TLS handshake.
func endedEarly(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return false
	}
	if probe, ok := errors.AsType[*balance.ProbeError](err); ok && probe.Status > 0 {
		return false
	}
	_, lookup := errors.AsType[*net.DNSError](err)
	socket, ok := errors.AsType[*net.OpError](err)
	return !lookup && (!ok || socket.Op != "dial")
}

// credentialAdvice says what to do about a server that wants other credentials, or gives no token.
func (a adviser) credentialAdvice(failed *evenkeel.EndpointError) string {
	token, ok := errors.AsType[*credential.TokenError](failed.Err)
	switch {
	case errors.Is(failed.Err, evenkeel.ErrUnauthenticated):
		return a.refusalAdvice()
	case !ok:
		return ""
	case token.Reason == credential.ReasonTimeout:
		return "; it takes connections: see that server's log"
	case token.Status == http.StatusNotFound:
		return "; the server gives no tokens: if it wants no authentication, leave user:password@ out"
	case token.Status == http.StatusTooManyRequests:
		return "; the server has refused this address too often: wait, and check the user and the password"
	case token.Reason == credential.ReasonUnreachable:
		return ""
	}
	return "; see that server's log"
}

// refusalAdvice says what to do about a server that refuses what the client shows.
func (a adviser) refusalAdvice() string {
	switch a.auth {
	case connstring.AuthModeAPIKey:
		return "; a server that asks for tokens looks at no API key: give user:password@ in front of the host instead of apiKey"
	case connstring.AuthModeClientCredentials:
		return "; check the user and the password in the connection string"
	default:
		return "; give credentials that the server takes: user:password@ in front of the host"
	}
}

// trustAdvice says what to do about a certificate that is not trusted, and about a proxy that leads nowhere.
func (a adviser) trustAdvice(err error) string {
	if _, ok := errors.AsType[*dial.ProxyError](err); ok {
		return "; that proxy is the one in HTTPS_PROXY: check it, or give --no-proxy"
	}
	if errors.Is(err, evenkeel.ErrClientCertificate) {
		return "; name the file of one that the server trusts with certificatePath in the connection string"
	}
	if _, refused := errors.AsType[*tls.CertificateVerificationError](err); !refused {
		return ""
	}
	var advice string
	switch certerr.FaultOf(err) {
	case certerr.Name:
		advice = "; name the server as its certificate does"
	case certerr.Nameless:
		advice = "; have one made that has the server's name as a subjectAltName"
	case certerr.Early:
		advice = "; set the clock of this machine, or wait"
	case certerr.Expired:
		advice = "; renew it, or set the clock of this machine"
	case certerr.Usage:
		advice = "; have one made for servers, with the extended key usage serverAuth"
	case certerr.Authority:
		advice = "; trust its authority with --ca"
		if a.ca {
			advice = "; its authority is not in the --ca file: add it there"
		}
	default:
		advice = "; have another one made"
	}
	return advice + ", or, in development, put skipTlsValidation=true into the connection string"
}

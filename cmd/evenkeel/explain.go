// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/evenkeel-go/evenkeel"
)

// explain words the failure of an attempt, or of one server in it, for a user of the command, who has flags where a
// program has options.
func explain(err error) error {
	attempt, ok := errors.AsType[*evenkeel.AttemptError](err)
	switch {
	case !ok:
		if failed, ok := errors.AsType[*evenkeel.EndpointError](err); ok {
			return explainServer(failed)
		}
		return err
	case attempt.Err != nil:
		return withAdvice(attempt.Err)
	case len(attempt.Failures) == 1:
		return explainServer(attempt.Failures[0])
	case len(attempt.Failures) > 1:
		return fmt.Errorf("%w (%s more failed)", explainServer(attempt.Failures[0]), plural(len(attempt.Failures)-1, "server"))
	}
	return err
}

func explainServer(failed *evenkeel.EndpointError) error {
	return fmt.Errorf("%s %s: %w%s", failed.Step, failed.Endpoint.Addr(), failed.Err, trustAdvice(failed.Err))
}

// trustAdvice says what to do about a certificate that is not trusted.
func trustAdvice(err error) string {
	if _, refused := errors.AsType[*tls.CertificateVerificationError](err); !refused {
		return ""
	}
	advice := "; trust its authority with --ca"
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		advice = "; name the server as its certificate does"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		advice = "; renew it"
	}
	return advice + ", or, in development, put skipTlsValidation=true into the connection string"
}

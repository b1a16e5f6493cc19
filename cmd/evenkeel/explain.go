// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/evenkeel-go/evenkeel"
)

// explain words the failure of an attempt for a user of the command, who has flags where a program has options.
func explain(err error) error {
	attempt, ok := errors.AsType[*evenkeel.AttemptError](err)
	if !ok {
		return err
	}
	if attempt.Err != nil || len(attempt.Failures) == 0 {
		return withAdvice(attempt.Err)
	}
	first := attempt.Failures[0]
	more := ""
	if n := len(attempt.Failures) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more servers failed)", n)
	}
	return fmt.Errorf("%s %s: %w%s%s", first.Step, first.Endpoint.Addr(), first.Err, trustAdvice(first.Err), more)
}

// trustAdvice says what to do about a certificate that is not trusted.
func trustAdvice(err error) string {
	if _, refused := errors.AsType[*tls.CertificateVerificationError](err); refused {
		return "; trust its authority with --ca, or, in development, put skipTlsValidation=true into the connection string"
	}
	return ""
}

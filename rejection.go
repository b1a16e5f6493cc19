// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"crypto/tls"
	"crypto/x509"
)

// rejection is what the program's own check of a certificate returned.
type rejection struct{ error }

func (e *rejection) Unwrap() error { return e.error }

// tellRejections makes what the program's own checks refuse a refused certificate like any other: crypto/tls hands their
// errors on as they are, and nothing in those tells them from a connection that broke.
func tellRejections(t *tls.Config) {
	if check := t.VerifyPeerCertificate; check != nil {
		t.VerifyPeerCertificate = func(raw [][]byte, chains [][]*x509.Certificate) error {
			if err := check(raw, chains); err != nil {
				return rejected(parsed(raw), err)
			}
			return nil
		}
	}
	if check := t.VerifyConnection; check != nil {
		t.VerifyConnection = func(state tls.ConnectionState) error {
			if err := check(state); err != nil {
				return rejected(state.PeerCertificates, err)
			}
			return nil
		}
	}
}

func rejected(certificates []*x509.Certificate, err error) error {
	return &tls.CertificateVerificationError{UnverifiedCertificates: certificates, Err: &rejection{err}}
}

// parsed are the certificates that can be read.
func parsed(raw [][]byte) []*x509.Certificate {
	var all []*x509.Certificate
	for _, der := range raw {
		if c, err := x509.ParseCertificate(der); err == nil {
			all = append(all, c)
		}
	}
	return all
}

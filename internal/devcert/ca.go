// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package devcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// CA is a certificate authority that lives in memory, for tests and demonstrations. NewCA makes one; the zero value
// cannot sign. It is safe for concurrent use.
type CA struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewCA returns an authority with a key of its own.
func NewCA() (*CA, error) {
	template, err := baseTemplate("Evenkeel development CA")
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.MaxPathLenZero = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of a certificate authority: %w", err)
	}
	signed, err := sign(template, key, template, key)
	if err != nil {
		return nil, err
	}
	return &CA{certificate: signed.Leaf, key: key}, nil
}

// Issue returns a server certificate for the names and IP addresses given, at least one.
func (ca *CA) Issue(names ...string) (tls.Certificate, error) {
	if len(names) == 0 {
		return tls.Certificate{}, errors.New("issue a certificate: no name given")
	}
	template, err := serverTemplate(names[0], names)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a key for %s: %w", names[0], err)
	}
	return sign(template, key, ca.certificate, ca.key)
}

// Pool returns a new pool that trusts the authority and nobody else.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.certificate)
	return pool
}

// PEM returns the authority's certificate, without its key, for programs that read roots from a file.
func (ca *CA) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.certificate.Raw})
}

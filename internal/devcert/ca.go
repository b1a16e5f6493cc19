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
	"time"
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
	return ca.IssueFor(Request{Names: names})
}

// Request describes a certificate to issue.
type Request struct {
	// Names are the names and IP addresses; at least one.
	Names []string
	// Client makes it a client's certificate rather than a server's.
	Client bool
	// NotBefore and NotAfter bound its validity; the zero value means a day ago and in a year.
	NotBefore, NotAfter time.Time
}

// IssueFor returns a certificate as it is asked for.
func (ca *CA) IssueFor(r Request) (tls.Certificate, error) {
	if len(r.Names) == 0 {
		return tls.Certificate{}, errors.New("issue a certificate: no name given")
	}
	template, err := serverTemplate(r.Names[0], r.Names)
	if err != nil {
		return tls.Certificate{}, err
	}
	if r.Client {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	if !r.NotBefore.IsZero() {
		template.NotBefore = r.NotBefore
	}
	if !r.NotAfter.IsZero() {
		template.NotAfter = r.NotAfter
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a key for %s: %w", r.Names[0], err)
	}
	return sign(template, key, ca.certificate, ca.key)
}

// Encode returns a certificate and its key in PEM form.
func Encode(certificate tls.Certificate) (cert, key []byte, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	for _, c := range certificate.Certificate {
		cert = append(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c})...)
	}
	return cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
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

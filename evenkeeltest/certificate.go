// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeeltest

import (
	"crypto/tls"
	"time"

	"github.com/evenkeel-go/evenkeel/internal/devcert"
)

// CertificateFault is what is wrong with the certificate that a server shows. The zero value is the right one.
type CertificateFault int

// The faults of a certificate.
const (
	// ExpiredCertificate was valid until yesterday.
	ExpiredCertificate CertificateFault = iota + 1
	// FutureCertificate is valid from tomorrow on.
	FutureCertificate
	// OtherName is for elsewhere.test and nobody else.
	OtherName
	// UnknownRoot is signed by nobody that a client trusts.
	UnknownRoot
)

// certificate makes the certificate that a server shows while a fault is set.
func (s *Server) certificate(fault CertificateFault) (tls.Certificate, error) {
	const day = 24 * time.Hour
	request := devcert.Request{Names: []string{s.name, "localhost", "127.0.0.1", "::1", s.cluster.config.Addr.String()}}
	switch fault {
	case ExpiredCertificate:
		request.NotBefore, request.NotAfter = time.Now().Add(-2*day), time.Now().Add(-day)
	case FutureCertificate:
		request.NotBefore = time.Now().Add(day)
	case OtherName:
		request.Names = []string{"elsewhere.test"}
	case UnknownRoot:
		return devcert.New(request.Names...)
	}
	return s.cluster.ca.IssueFor(request)
}

// serverTLS are the settings of a server, whose certificate is the one of the moment.
func (s *Server) serverTLS(right tls.Certificate) *tls.Config {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			fault, _ := s.faults.load()
			if fault.Certificate == 0 {
				return &right, nil
			}
			wrong, err := s.certificate(fault.Certificate)
			return &wrong, err
		},
	}
	if s.cluster.config.ClientCertificates {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, s.cluster.CAPool()
	}
	return config
}

// ClientCertificate makes a certificate for a client of that name, which servers with Config.ClientCertificates accept, and
// its key, both in PEM form. One file may hold both.
func (c *Cluster) ClientCertificate(name string) (cert, key []byte, err error) {
	certificate, err := c.ca.IssueFor(devcert.Request{Names: []string{name}, Client: true})
	if err != nil {
		return nil, nil, err
	}
	return devcert.Encode(certificate)
}

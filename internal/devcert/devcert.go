// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package devcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"time"
)

// Validity of everything made here: a day back for clocks that are behind, and a year ahead.
const (
	validBefore = 24 * time.Hour
	validAfter  = 365 * 24 * time.Hour
)

// New returns a self-signed server certificate for localhost, chronicle, 127.0.0.1 and ::1, and for the names and IP
// addresses given in addition.
//
// A client accepts it when it takes the certificate itself as a root or does not validate. Leaf holds the parsed
// certificate. The error says which name cannot be used.
func New(extra ...string) (tls.Certificate, error) {
	names := append([]string{"localhost", "chronicle", "127.0.0.1", "::1"}, extra...)
	template, err := serverTemplate("localhost", names)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a development key: %w", err)
	}
	return sign(template, key, template, key)
}

// serverTemplate describes a server certificate for the names, of which those that are IP addresses become IP names.
func serverTemplate(commonName string, names []string) (*x509.Certificate, error) {
	template, err := baseTemplate(commonName)
	if err != nil {
		return nil, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		if err := addName(template, name); err != nil {
			return nil, err
		}
	}
	return template, nil
}

// baseTemplate holds what all certificates made here have in common.
func baseTemplate(commonName string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             now.Add(-validBefore),
		NotAfter:              now.Add(validAfter),
		BasicConstraintsValid: true,
	}, nil
}

// addName adds one name or address, once. An IPv6 address may have brackets and a zone: names come from host:port
// strings, and certificates know neither.
func addName(template *x509.Certificate, name string) error {
	host := strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"), ".")
	address, _, _ := strings.Cut(host, "%")
	if ip := net.ParseIP(address); ip != nil {
		if !slices.ContainsFunc(template.IPAddresses, ip.Equal) {
			template.IPAddresses = append(template.IPAddresses, ip)
		}
		return nil
	}
	if host == "" || strings.ContainsFunc(host, outsideDNSName) {
		return fmt.Errorf("certificate name %q is neither a DNS name nor an IP address", name)
	}
	if !slices.Contains(template.DNSNames, host) {
		template.DNSNames = append(template.DNSNames, host)
	}
	return nil
}

// outsideDNSName reports whether a character cannot stand in a DNS name of a certificate.
func outsideDNSName(r rune) bool {
	letterOrDigit := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !letterOrDigit && r != '.' && r != '-' && r != '_' && r != '*'
}

// sign makes a certificate for key out of template, signed by the parent's key.
func sign(template *x509.Certificate, key *ecdsa.PrivateKey, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (tls.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("sign a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("parse a certificate just made: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package certerr

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Fault is what is wrong with the certificate of a server.
type Fault uint8

// The faults.
const (
	None      Fault = iota
	Name            // it is for other names
	Nameless        // it is for no name: it has no subjectAltName, and its CN does not count
	Expired         // its time is over
	Early           // its time has not come
	Authority       // nobody knows who signed it
	Usage           // it is not made for servers
	Other
)

// FaultOf says why a client refused the certificate of a server; None where the error is not about that.
func FaultOf(err error) Fault {
	refused, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok {
		return None
	}
	if wrong, ok := errors.AsType[x509.HostnameError](refused.Err); ok {
		if wrong.Certificate != nil && nameless(wrong.Certificate) {
			return Nameless
		}
		return Name
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](refused.Err); ok {
		return Authority
	}
	invalid, ok := errors.AsType[x509.CertificateInvalidError](refused.Err)
	switch {
	case !ok:
		return Other
	case invalid.Reason == x509.Expired && invalid.Cert != nil && time.Now().Before(invalid.Cert.NotBefore):
		return Early
	case invalid.Reason == x509.Expired:
		return Expired
	case invalid.Reason == x509.IncompatibleUsage:
		return Usage
	}
	return Other
}

// Doubts are the reasons for which all clients will refuse a server's certificate, whoever signed it and whatever they call
// the server.
func Doubts(leaf *x509.Certificate, now time.Time) []string {
	var doubts []string
	if now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		doubts = append(doubts, dateText(leaf, now))
	}
	if !forServers(leaf) {
		doubts = append(doubts, "certificate is not made for servers: it has extended key usages, and serverAuth is not among them")
	}
	if nameless(leaf) {
		doubts = append(doubts, namelessText(leaf))
	}
	return doubts
}

// forServers says that a certificate may be a server's: it does not say what it is for, or says that (RFC 5280 section
// 4.2.1.12).
func forServers(leaf *x509.Certificate) bool {
	if len(leaf.ExtKeyUsage) == 0 && len(leaf.UnknownExtKeyUsage) == 0 {
		return true
	}
	return slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth) || slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny)
}

// nameless says that a certificate is for no host at all. A host that stands in its CN does not count (RFC 9525 section 2).
func nameless(c *x509.Certificate) bool { return len(c.DNSNames) == 0 && len(c.IPAddresses) == 0 }

func namelessText(c *x509.Certificate) string {
	text := "certificate names no host in a subjectAltName"
	if c.Subject.CommonName != "" {
		text += fmt.Sprintf(`, and the CN "%s" does not count (RFC 9525)`, printable(c.Subject.CommonName, maxName))
	}
	return text
}

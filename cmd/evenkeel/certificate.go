// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
)

// certificateReport is the certificate of a server in JSON.
type certificateReport struct {
	Subject    string    `json:"subject"`
	Issuer     string    `json:"issuer"`
	SelfSigned bool      `json:"self_signed"`
	NotAfter   time.Time `json:"not_after"`
	// DaysLeft is negative when it has expired.
	DaysLeft int `json:"days_left"`
}

// describeCertificate returns the certificate that a server showed; nil without TLS.
func describeCertificate(state *tls.ConnectionState, now time.Time) *certificateReport {
	if state == nil || len(state.PeerCertificates) == 0 {
		return nil
	}
	return describeLeaf(state.PeerCertificates[0], now)
}

func describeLeaf(leaf *x509.Certificate, now time.Time) *certificateReport {
	return &certificateReport{
		Subject:    subjectOf(leaf),
		Issuer:     printable(nameOf(leaf.Issuer), longestName),
		SelfSigned: leaf.CheckSignature(leaf.SignatureAlgorithm, leaf.RawTBSCertificate, leaf.Signature) == nil,
		NotAfter:   leaf.NotAfter.UTC(),
		DaysLeft:   int(math.Floor(leaf.NotAfter.Sub(now).Hours() / 24)),
	}
}

// String returns a few words for a person to read.
func (r *certificateReport) String() string {
	if r == nil {
		return "none, plaintext"
	}
	issuer := "by " + r.Issuer
	if r.SelfSigned {
		issuer = "self-signed"
	}
	return fmt.Sprintf("%s, %s, %s", r.Subject, issuer, daysLeft(r.DaysLeft))
}

func daysLeft(days int) string {
	switch {
	case days < 0:
		return "expired"
	case days == 0:
		return "expires today"
	case days == 1:
		return "1 day left"
	default:
		return fmt.Sprintf("%d days left", days)
	}
}

func subjectOf(c *x509.Certificate) string {
	if name := nameOf(c.Subject); name != "" {
		return printable(name, longestName)
	}
	if len(c.DNSNames) > 0 {
		return printable(c.DNSNames[0], longestName)
	}
	if len(c.IPAddresses) > 0 {
		return c.IPAddresses[0].String()
	}
	return "without a name"
}

func nameOf(n pkix.Name) string {
	if n.CommonName != "" {
		return n.CommonName
	}
	return n.String()
}

// longestName bounds what is shown of a name in a certificate.
const longestName = 64

// printable makes a text that a stranger sent safe for a terminal: one line, bounded, nothing to act on.
func printable(text string, longest int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
	if runes := []rune(text); len(runes) > longest {
		text = string(runes[:longest-1]) + "…"
	}
	return text
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package certerr

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// ErrClient is found in the error of a server that refuses the client's certificate, or misses one.
var ErrClient = errors.New("the server does not accept the client's certificate")

// Error is an error about a certificate, in words. What it says of the certificate is bounded and printable: a stranger
// may have written it.
type Error struct {
	text  string
	cause error
}

// Error says which certificate was refused, why, and for which name.
func (e *Error) Error() string { return e.text }

// Unwrap returns the error of TLS.
func (e *Error) Unwrap() error { return e.cause }

// Explain words the error of a connection to the server of that name. An error that is not about certificates is returned
// as it is.
func Explain(err error, name string) error {
	if _, done := errors.AsType[*Error](err); done || err == nil {
		return err
	}
	if text := clientText(err); text != "" {
		return &Error{text: text, cause: fmt.Errorf("%w: %w", ErrClient, err)}
	}
	refused, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok {
		return err
	}
	return &Error{text: text(refused, printable(name, maxName)), cause: err}
}

// text words why a certificate of the server was refused.
func text(refused *tls.CertificateVerificationError, name string) string {
	var leaf *x509.Certificate
	if len(refused.UnverifiedCertificates) > 0 {
		leaf = refused.UnverifiedCertificates[0]
	}
	if wrong, ok := errors.AsType[x509.HostnameError](refused.Err); ok {
		if wrong.Certificate != nil && nameless(wrong.Certificate) {
			return namelessText(wrong.Certificate) + ": " + owner(leaf, leaf, name)
		}
		return fmt.Sprintf("certificate is for %s, not for %s: %s", names(wrong.Certificate), name, describe(wrong.Certificate))
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](refused.Err); ok && invalid.Reason == x509.Expired {
		return dateText(invalid.Cert, time.Now()) + ": " + owner(invalid.Cert, leaf, name)
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](refused.Err); ok {
		return "certificate signed by unknown authority: " + owner(leaf, leaf, name)
	}
	return "certificate refused: " + owner(leaf, leaf, name) + ": " + printable(refused.Err.Error(), maxText)
}

// dateText says on which side of its time a certificate is.
func dateText(c *x509.Certificate, now time.Time) string {
	if c == nil {
		return "certificate has expired or is not yet valid"
	}
	if now.Before(c.NotBefore) {
		return "certificate is not valid before " + stamp(c.NotBefore) + ", and the time here is " + stamp(now)
	}
	return "certificate expired on " + stamp(c.NotAfter) + ", and the time here is " + stamp(now)
}

// stamp is a time to the minute: what is off by less is no help to anybody.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

// owner says whose certificate it is: the server's own, or one of those that stand behind it.
func owner(c, leaf *x509.Certificate, name string) string {
	if c == nil || leaf == nil || c.Equal(leaf) {
		return "that of " + name + ", " + describe(c)
	}
	return "one that stands behind that of " + name + ", " + describe(c)
}

// describe is a certificate in a few words.
func describe(c *x509.Certificate) string {
	switch {
	case c == nil:
		return "unknown"
	case bytes.Equal(c.RawIssuer, c.RawSubject):
		return quoted(c.Subject) + ", self-signed"
	default:
		return quoted(c.Subject) + ", issued by " + quoted(c.Issuer)
	}
}

func quoted(n pkix.Name) string {
	text := n.CommonName
	if text == "" {
		text = n.String()
	}
	if text == "" {
		return "without a subject"
	}
	return `"` + printable(text, maxName) + `"`
}

// names lists whom a certificate is for.
func names(c *x509.Certificate) string {
	if c == nil {
		return "another name"
	}
	all := append([]string(nil), c.DNSNames...)
	for _, ip := range c.IPAddresses {
		all = append(all, ip.String())
	}
	const most = 5
	more := ""
	if len(all) > most {
		more = fmt.Sprintf(" and %d more", len(all)-most)
		all = all[:most]
	}
	for i := range all {
		all[i] = printable(all[i], maxName)
	}
	return strings.Join(all, ", ") + more
}

// The alerts with which a server refuses a client's certificate (RFC 8446 section 6).
const (
	badCertificate      = tls.AlertError(42)
	unknownCA           = tls.AlertError(48)
	accessDenied        = tls.AlertError(49)
	certificateRequired = tls.AlertError(116)
)

// wantsOne says that a server got no certificate that it would take.
const wantsOne = "the server wants a client certificate, and got none"

// clientText words what a server said of the client's certificate; empty when it said nothing of the kind.
func clientText(err error) string {
	remote, ok := errors.AsType[*net.OpError](err)
	if !ok || remote.Op != "remote error" || remote.Err == nil {
		return ""
	}
	// The type of an alert is not exported, its text is that of an AlertError.
	said := remote.Err.Error()
	switch {
	case said == certificateRequired.Error():
		return wantsOne
	case said == badCertificate.Error():
		return "the server refuses the client's certificate, or got none (bad certificate)"
	case said == unknownCA.Error():
		return "the server refuses the client's certificate: it does not know the authority that signed it"
	}
	for alert := badCertificate; alert <= accessDenied; alert++ {
		if alert != 47 && said == alert.Error() { // 47 is an illegal parameter
			return "the server refuses the client's certificate (" + strings.TrimPrefix(said, "tls: ") + ")"
		}
	}
	return ""
}

// The bounds of a name, and of a text, that a stranger wrote.
const (
	maxName = 64
	maxText = 200
)

// printable makes a text one line that does nothing to a terminal.
func printable(text string, longest int) string {
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package connstring

import (
	"fmt"
	"log/slog"
	"slices"
)

// Limits and defaults of a connection string.
const (
	// MaxLength is the length of the longest string that is read, in bytes: 64 KiB.
	MaxLength = 64 << 10
	// DefaultPort is the port of a host without one.
	DefaultPort = 35000
	// DefaultNameServerPort is the port of a srvNameServer without one.
	DefaultNameServerPort = 53
)

// Development is the connection string of a development server on this machine, with the credentials such a server
// is born with.
const Development = "chronicle://chronicle-dev-client:chronicle-dev-secret@localhost:35000/?skipTlsValidation=true"

// The values of ConnString.LoadBalancer.
const (
	LeastConnections = "least-connections"
	RoundRobin       = "round-robin"
	Random           = "random"
)

// AuthMode says how a client authenticates.
type AuthMode string

// The ways to authenticate.
const (
	// AuthModeNone means without any credentials.
	AuthModeNone AuthMode = "none"
	// AuthModeClientCredentials means a token bought with user name and password (RFC 6749, section 4.4).
	AuthModeClientCredentials AuthMode = "client-credentials"
	// AuthModeAPIKey means an API key that goes with every call.
	AuthModeAPIKey AuthMode = "api-key"
)

// ConnString is what a connection string says. Make one with Parse or New: the methods expect a value that one of
// them has checked. Its zero value is not a valid one, as it has no host.
//
// It may be read concurrently. Every rendering but Unredacted hides the secrets.
type ConnString struct {
	// Hosts are the servers, in the order in which they were written, at least one. With SRV there is exactly one,
	// whose Name is the name to ask for and whose Port is 0.
	Hosts []Host
	// SRV says that the servers are found through the SRV records of the one host (chronicle+srv://).
	SRV bool
	// Username and Password are the client credentials, decoded. Both are set or neither.
	Username string
	Password Secret
	// APIKey is the API key, decoded (option apiKey).
	APIKey Secret
	// AuthNone says that the string has auth=none. Without it a string without credentials means the same, yet
	// leaves room for credentials from elsewhere.
	AuthNone bool
	// LoadBalancer is how one of several servers is picked: LeastConnections, RoundRobin or Random. Empty means that
	// the string does not say it; EffectiveLoadBalancer has the default.
	LoadBalancer string
	// SkipTLSValidation accepts any certificate of a server (option skipTlsValidation). Default false.
	SkipTLSValidation bool
	// SRVNameServer is the DNS server to ask, as "host:port" with IPv6 addresses in brackets, ready to be dialled.
	// Empty means the name server of the system. It is only set together with SRV.
	SRVNameServer string
	// CertificatePath is the file with the client's certificate, PEM or PKCS#12. Empty means none.
	CertificatePath string
	// CertificatePassword opens the file at CertificatePath. Empty means that it needs no password.
	CertificatePassword Secret
	// SkipCompatibilityCheck leaves out the comparison of contracts with the server. Default false.
	SkipCompatibilityCheck bool
}

// New makes a connection string from parts, under the rules of Parse, and returns a checked copy of them in the form
// that Parse gives. Fields that are left zero have their defaults; a Port of 0 becomes DefaultPort unless SRV is set.
// Names and addresses are written bare: an IPv6 address has no brackets, and its zone follows a single %. The
// SRVNameServer is written as "host[:port]", with an IPv6 address in brackets.
//
// The error is a *ParseError without a position.
func New(parts ConnString) (*ConnString, error) {
	c := parts
	c.Hosts = slices.Clone(parts.Hosts)
	if e := c.normalise(); e != nil {
		return nil, e.at(NoOffset)
	}
	return &c, nil
}

// normalise checks the parts one by one and together, and brings them to the form that Parse gives.
func (c *ConnString) normalise() *ParseError {
	if e := normaliseHosts(c.Hosts, c.SRV); e != nil {
		return e
	}
	if c.hasCredentials() {
		if e := credentialsPresent(c.Username, c.Password.Reveal()); e != nil {
			return e
		}
	}
	if c.LoadBalancer != "" {
		if e := setLoadBalancer(c, c.LoadBalancer); e != nil {
			return e.of(optionLoadBalancer)
		}
	}
	if c.SRVNameServer != "" {
		if e := setNameServer(c, c.SRVNameServer); e != nil {
			return e.of(optionNameServer)
		}
	}
	if e := c.contradiction(); e != nil {
		return e
	}
	if len(c.render(compactForm)) > MaxLength {
		return tooLong()
	}
	return nil
}

// contradiction finds options that exclude each other.
func (c *ConnString) contradiction() *ParseError {
	switch {
	case c.AuthNone && c.hasCredentials():
		return conflict("auth=none together with user and password", "keep one of them").of(optionAuth)
	case c.AuthNone && !c.APIKey.IsZero():
		return conflict("auth=none together with apiKey", "keep one of them").of(optionAuth)
	case c.hasCredentials() && !c.APIKey.IsZero():
		return conflict("apiKey together with user and password", "keep one of them").of(optionAPIKey)
	case c.SRVNameServer != "" && !c.SRV:
		return misplaced("name server without chronicle+srv", "begin with chronicle+srv:// or leave it out").of(optionNameServer)
	case c.CertificatePath == "" && !c.CertificatePassword.IsZero():
		return misplaced("password of no certificate", "give certificatePath too or leave it out").of(optionCertificatePassword)
	}
	return nil
}

func (c *ConnString) hasCredentials() bool { return c.Username != "" || !c.Password.IsZero() }

// AuthMode returns how the string says to authenticate.
func (c *ConnString) AuthMode() AuthMode {
	switch {
	case !c.APIKey.IsZero():
		return AuthModeAPIKey
	case c.Username != "":
		return AuthModeClientCredentials
	default:
		return AuthModeNone
	}
}

// EffectiveLoadBalancer returns LoadBalancer, or LeastConnections where the string does not say one.
func (c *ConnString) EffectiveLoadBalancer() string {
	if c.LoadBalancer == "" {
		return LeastConnections
	}
	return c.LoadBalancer
}

// Equal says whether both mean the same: equal hosts in the same order, equal credentials and equal options. A nil
// ConnString equals only nil.
func (c *ConnString) Equal(other *ConnString) bool {
	if c == nil || other == nil {
		return c == other
	}
	return slices.Equal(c.Hosts, other.Hosts) && c.SRV == other.SRV &&
		c.Username == other.Username && c.Password.Equal(other.Password) &&
		c.APIKey.Equal(other.APIKey) && c.AuthNone == other.AuthNone &&
		c.LoadBalancer == other.LoadBalancer && c.SkipTLSValidation == other.SkipTLSValidation &&
		c.SRVNameServer == other.SRVNameServer && c.CertificatePath == other.CertificatePath &&
		c.CertificatePassword.Equal(other.CertificatePassword) &&
		c.SkipCompatibilityCheck == other.SkipCompatibilityCheck
}

// Unredacted returns the full connection string, secrets included: never log it. It is at most MaxLength bytes long,
// and Parse makes an equal value from it.
func (c *ConnString) Unredacted() string {
	if s := c.render(fullForm); len(s) <= MaxLength {
		return s
	}
	return c.render(compactForm)
}

// The methods below have value receivers, so that a ConnString that is not behind a pointer is redacted as well.

// String returns the connection string with "***" in place of every secret.
func (c ConnString) String() string { return c.render(redactedForm) }

// Format implements fmt.Formatter: every verb prints what String returns, quoted for %q and %#v.
func (c ConnString) Format(state fmt.State, verb rune) { formatRedacted(state, verb, c.String()) }

// LogValue implements slog.LogValuer with what String returns.
func (c ConnString) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalText implements encoding.TextMarshaler, and so JSON, with what String returns: encodings end up in logs and
// files. A program that has to store a string in full stores Unredacted. The error is always nil.
func (c ConnString) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler, and so JSON: it is Parse, and returns the same errors. It refuses
// a text that MarshalText made of a value with secrets.
func (c *ConnString) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*c = *parsed
	return nil
}

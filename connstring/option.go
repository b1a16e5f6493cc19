// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package connstring

import "strings"

// optionID tells the known options apart.
type optionID int

const (
	optionAPIKey optionID = iota
	optionAuth
	optionLoadBalancer
	optionSkipTLSValidation
	optionNameServer
	optionCertificatePath
	optionCertificatePassword
	optionSkipCompatibilityCheck
	optionDisableTLS
	optionCount
)

// option is what there is to know about one option.
type option struct {
	name   string
	secret bool
	// set checks a decoded value, which may be empty, and takes it.
	set func(c *ConnString, value string) *ParseError
	// get returns the value to render, empty for the default. An option that is never rendered has none.
	get func(c *ConnString) string
}

// options has every known option, in the order in which they are rendered.
//
//nolint:gochecknoglobals // a constant table, which Go cannot declare as one
var options = [optionCount]option{
	optionAPIKey: {
		name: "apiKey", secret: true,
		set: secretSetter(func(c *ConnString) *Secret { return &c.APIKey }),
		get: func(c *ConnString) string { return c.APIKey.Reveal() },
	},
	optionAuth: {
		name: "auth", set: setAuth,
		get: func(c *ConnString) string { return either(c.AuthNone, string(AuthModeNone), "") },
	},
	optionLoadBalancer: {
		name: "loadBalancer", set: setLoadBalancer,
		get: func(c *ConnString) string { return c.LoadBalancer },
	},
	optionSkipTLSValidation: {
		name: "skipTlsValidation",
		set:  flagSetter(func(c *ConnString) *bool { return &c.SkipTLSValidation }),
		get:  func(c *ConnString) string { return either(c.SkipTLSValidation, "true", "") },
	},
	optionNameServer: {
		name: "srvNameServer", set: setNameServer,
		get: func(c *ConnString) string { return c.SRVNameServer },
	},
	optionCertificatePath: {
		name: "certificatePath", set: setCertificatePath,
		get: func(c *ConnString) string { return c.CertificatePath },
	},
	optionCertificatePassword: {
		name: "certificatePassword", secret: true,
		set: secretSetter(func(c *ConnString) *Secret { return &c.CertificatePassword }),
		get: func(c *ConnString) string { return c.CertificatePassword.Reveal() },
	},
	optionSkipCompatibilityCheck: {
		name: "skipCompatibilityCheck",
		set:  flagSetter(func(c *ConnString) *bool { return &c.SkipCompatibilityCheck }),
		get:  func(c *ConnString) string { return either(c.SkipCompatibilityCheck, "true", "") },
	},
	optionDisableTLS: {name: "disableTls", set: refuseDisableTLS},
}

// findOption returns the option of that name, in any letter case.
func findOption(name string) (optionID, bool) {
	for id := range options {
		if strings.EqualFold(name, options[id].name) {
			return optionID(id), true
		}
	}
	return 0, false
}

// secretSetter sets a secret that may not be empty: an empty one is more likely a variable that was not filled in
// than a wish.
func secretSetter(field func(*ConnString) *Secret) func(*ConnString, string) *ParseError {
	return func(c *ConnString, value string) *ParseError {
		if value == "" {
			return badValue("empty value", "give it a value or leave it out")
		}
		*field(c) = NewSecret(value)
		return nil
	}
}

// flagSetter sets an option that is true or false.
func flagSetter(field func(*ConnString) *bool) func(*ConnString, string) *ParseError {
	return func(c *ConnString, value string) *ParseError {
		switch strings.ToLower(value) {
		case "true":
			*field(c) = true
		case "false":
			*field(c) = false
		default:
			return badValue("neither true nor false", "write true or false")
		}
		return nil
	}
}

func setAuth(c *ConnString, value string) *ParseError {
	if value != string(AuthModeNone) {
		return badValue("not a way to authenticate", "auth=none is the only one; write user:password@ or apiKey for others")
	}
	c.AuthNone = true
	return nil
}

func setLoadBalancer(c *ConnString, value string) *ParseError {
	switch value = strings.ToLower(value); value {
	case LeastConnections, RoundRobin, Random:
		c.LoadBalancer = value
		return nil
	}
	return badValue("not a known strategy", "use least-connections, round-robin or random")
}

// setNameServer stores the name server with its port, so that nobody else has to know the default. The zone of an
// IPv6 address follows a single %, as the value is decoded.
func setNameServer(c *ConnString, value string) *ParseError {
	h, e := parseHostPort(value, "%")
	if e != nil {
		return badValue("bad "+string(e.Part)+": "+e.Reason,
			"write host or host:port, with an IPv6 address in brackets")
	}
	if h.Port == 0 {
		h.Port = DefaultNameServerPort
	}
	c.SRVNameServer = h.String()
	return nil
}

func setCertificatePath(c *ConnString, value string) *ParseError {
	if value == "" {
		return badValue("empty value", "give it a value or leave it out")
	}
	c.CertificatePath = value
	return nil
}

func refuseDisableTLS(*ConnString, string) *ParseError {
	return fault(CodeTLSRequired, PartOption, "TLS cannot be switched off from a connection string",
		"leave it out; skipTlsValidation=true accepts any certificate")
}

func badValue(reason, hint string) *ParseError {
	return fault(CodeOptionValue, PartOption, reason, hint)
}

func conflict(reason, hint string) *ParseError {
	return fault(CodeAuthConflict, PartOption, reason, hint)
}

func misplaced(reason, hint string) *ParseError {
	return fault(CodeOptionMisplaced, PartOption, reason, hint)
}

// either returns yes or no.
func either(condition bool, yes, no string) string {
	if condition {
		return yes
	}
	return no
}

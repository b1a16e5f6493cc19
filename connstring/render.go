// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package connstring

import (
	"net/netip"
	"strconv"
	"strings"
)

// form is a way to render a connection string.
type form int

const (
	// redactedForm is the full form with a mark in place of every secret.
	redactedForm form = iota
	// fullForm says ports aloud and escapes generously: it is what most readers of such strings agree on.
	fullForm
	// compactForm is never longer than any text that Parse reads as the same value: it leaves out default ports and
	// the slash and escapes only what must be. It is for values whose full form would be too long to be parsed.
	compactForm
)

// Schemes, in the form in which they are rendered.
const (
	scheme    = "chronicle://"
	schemeSRV = "chronicle+srv://"
)

// render writes the connection string.
func (c *ConnString) render(f form) string {
	var b strings.Builder
	b.WriteString(either(c.SRV, schemeSRV, scheme))
	if c.hasCredentials() {
		keepUser, keepPassword := keepInCredentials, keepInCredentials
		if f == compactForm {
			keepUser, keepPassword = keepInUserCompact, keepInPasswordCompact
		}
		writeEscaped(&b, c.Username, keepUser)
		b.WriteByte(':')
		writeSecret(&b, c.Password.Reveal(), f, keepPassword)
		b.WriteByte('@')
	}
	for i, h := range c.Hosts {
		if i > 0 {
			b.WriteByte(',')
		}
		writeHost(&b, h, f)
	}
	c.renderOptions(&b, f)
	return b.String()
}

// renderOptions writes the options that differ from their defaults.
func (c *ConnString) renderOptions(b *strings.Builder, f form) {
	separator, keep := "/?", keepInValue
	if f == compactForm {
		separator, keep = "?", keepInValueCompact
	}
	for id := range options {
		o := &options[id]
		if o.get == nil {
			continue
		}
		value := o.get(c)
		if value == "" {
			continue
		}
		b.WriteString(separator + o.name + "=")
		separator = "&"
		if f == compactForm && optionID(id) == optionNameServer {
			value = strings.TrimSuffix(value, ":"+strconv.Itoa(DefaultNameServerPort))
		}
		if o.secret {
			writeSecret(b, value, f, keep)
		} else {
			writeEscaped(b, value, keep)
		}
	}
}

// writeSecret writes a secret or the mark for it. A secret that looks like the mark is escaped, so that it does not
// read as redacted.
func writeSecret(b *strings.Builder, secret string, f form, keep func(byte) bool) {
	switch {
	case f == redactedForm && secret != "":
		b.WriteString(mask)
	case f == compactForm && secret == mask:
		b.WriteString("%2A" + mask[1:])
	default:
		writeEscaped(b, secret, keep)
	}
}

// writeHost writes a host, an IPv6 address in brackets and its zone behind %25.
func writeHost(b *strings.Builder, h Host, f form) {
	if address, err := netip.ParseAddr(h.Name); err == nil && address.Is6() {
		b.WriteString("[" + strings.Replace(h.Name, "%", "%25", 1) + "]")
	} else {
		b.WriteString(h.Name)
	}
	if h.Port != 0 && (f != compactForm || h.Port != DefaultPort) {
		b.WriteString(":" + strconv.Itoa(int(h.Port)))
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package connstring_test

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/evenkeel-go/evenkeel/connstring"
)

// hostNames generates DNS names in any letter case, IPv4 addresses and IPv6 addresses, some with a zone.
func hostNames(srv bool) *rapid.Generator[string] {
	names := rapid.StringMatching(`[a-zA-Z_][a-zA-Z0-9_]{0,10}(\.[a-zA-Z][a-zA-Z0-9-]{0,10}[a-z0-9]){0,3}\.?`)
	if srv {
		return names
	}
	ipv4 := rapid.Custom(func(t *rapid.T) string {
		return netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "ipv4"))).String()
	})
	ipv6 := rapid.Custom(func(t *rapid.T) string {
		address := netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0xff}), 16, 16).Draw(t, "ipv6")))
		if !address.Is4In6() {
			address = address.WithZone(rapid.StringMatching(`([a-zA-Z0-9._~-]{1,5})?`).Draw(t, "zone"))
		}
		return strings.ToUpper(address.WithZone("").String()) + strings.TrimPrefix(address.String(), address.WithZone("").String())
	})
	return rapid.OneOf(names, ipv4, ipv6)
}

// anyParts generates parts that are valid together.
func anyParts() *rapid.Generator[connstring.ConnString] {
	// Bytes, not runes: a secret need not be UTF-8.
	secret := rapid.Custom(func(t *rapid.T) connstring.Secret {
		return connstring.NewSecret(string(rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "secret")))
	})
	return rapid.Custom(func(t *rapid.T) connstring.ConnString {
		c := connstring.ConnString{
			SRV:                    rapid.Bool().Draw(t, "srv"),
			LoadBalancer:           rapid.SampledFrom([]string{"", "random", "Round-Robin", "LEAST-CONNECTIONS"}).Draw(t, "loadBalancer"),
			SkipTLSValidation:      rapid.Bool().Draw(t, "skipTLS"),
			SkipCompatibilityCheck: rapid.Bool().Draw(t, "skipCheck"),
			CertificatePath:        rapid.String().Draw(t, "path"),
		}
		most := 5
		if c.SRV {
			most = 1
			c.SRVNameServer = rapid.SampledFrom([]string{"", "ns", "NS.example.:54", "[::1]", "[FE80::1%lo]:5353", "192.0.2.1"}).Draw(t, "ns")
		}
		for range rapid.IntRange(1, most).Draw(t, "hosts") {
			h := connstring.Host{Name: hostNames(c.SRV).Draw(t, "host")}
			if !c.SRV {
				h.Port = rapid.Uint16().Draw(t, "port")
			}
			c.Hosts = append(c.Hosts, h)
		}
		switch rapid.IntRange(0, 3).Draw(t, "auth") {
		case 1:
			c.AuthNone = true
		case 2:
			c.APIKey = secret.Draw(t, "key")
		case 3:
			c.Username = string(rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "user"))
			c.Password = secret.Draw(t, "password")
		}
		if rapid.Bool().Draw(t, "certificatePassword") {
			c.CertificatePath = "client.p12"
			c.CertificatePassword = secret.Draw(t, "password of the certificate")
		}
		return c
	})
}

func TestAnyPartsSurviveTheRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parts := anyParts().Draw(t, "parts")
		c, err := connstring.New(parts)
		if err != nil {
			t.Fatalf("New: got error %v, want none", err)
		}
		requireRoundTrip(t, c)
		compact, err := connstring.Parse(connstring.CompactForTest(c))
		if err != nil || !compact.Equal(c) {
			t.Fatalf("the compact form parses to %v (error %v), want %v", compact, err, c)
		}
		if c.Username != parts.Username || !c.Password.Equal(parts.Password) || !c.APIKey.Equal(parts.APIKey) ||
			!c.CertificatePassword.Equal(parts.CertificatePassword) || c.CertificatePath != parts.CertificatePath {
			t.Fatal("New changed a text that has only one form")
		}
	})
}

// TestRedactedStringsAreRefused makes sure that a string copied from a log cannot be used by mistake.
func TestRedactedStringsAreRefused(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c, err := connstring.New(anyParts().Draw(t, "parts"))
		if err != nil {
			t.Fatalf("New: got error %v, want none", err)
		}
		again, err := connstring.Parse(c.String())
		if c.Password.IsZero() && c.APIKey.IsZero() && c.CertificatePassword.IsZero() {
			if err != nil || !again.Equal(c) {
				t.Fatalf("got %v and error %v, want %v: there was nothing to redact", again, err, c)
			}
			return
		}
		requireCode(t, err, connstring.CodeRedacted)
	})
}

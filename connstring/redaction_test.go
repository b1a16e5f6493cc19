// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package connstring_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/evenkeel-go/evenkeel/connstring"
)

// marker is planted as a secret. No word of the package's errors contains it, in any letter case.
const marker = "QzMarkerXk"

// renderings shows a value in every way that a program is likely to show it.
func renderings(tb testing.TB, value any) map[string]string {
	tb.Helper()
	shown := make(map[string]string)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%10.3s", "%p", "%w", "%T"} {
		shown[verb] = fmt.Sprintf(verb, value)
	}
	shown["Sprint"] = fmt.Sprint(value)
	shown["Errorf"] = fmt.Errorf("wrapped: %v", value).Error()
	shown["slog text"] = logged(value, func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) })
	shown["slog JSON"] = logged(value, func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) })
	// An encoding may refuse a value; what it says then is looked at as well.
	text, err := json.Marshal(value)
	shown["JSON"] = fmt.Sprint(string(text), err)
	text, err = json.MarshalIndent(map[string]any{"key": value}, "", " ")
	shown["JSON in a map"] = fmt.Sprint(string(text), err)
	text, err = xml.Marshal(value)
	shown["XML"] = fmt.Sprint(string(text), err)
	var b bytes.Buffer
	err = gob.NewEncoder(&b).Encode(value)
	shown["gob"] = fmt.Sprint(b.String(), err)
	return shown
}

// logged returns a record that has the value as an attribute, in a group and as the message's only argument.
func logged(value any, handler func(*bytes.Buffer) slog.Handler) string {
	var b bytes.Buffer
	logger := slog.New(handler(&b))
	logger.Info("with a value", "value", value, slog.Group("group", "value", value))
	logger.With("value", value).Info("again")
	return b.String()
}

// requireHidden fails when the marker is in any rendering of the value.
func requireHidden(tb testing.TB, value any) {
	tb.Helper()
	secret := strings.ToLower(marker)
	hex := fmt.Sprintf("%x", marker)
	for how, text := range renderings(tb, value) {
		if text = strings.ToLower(text); strings.Contains(text, secret) || strings.Contains(text, hex) {
			tb.Errorf("%s of a %T shows the secret: %s", how, value, text)
		}
	}
}

// holder has secrets where fmt cannot call their methods.
type holder struct {
	Exported connstring.ConnString
	value    connstring.ConnString
	pointer  *connstring.ConnString
	secret   connstring.Secret
	list     []connstring.Secret
	table    map[string]connstring.Secret
	any      any
}

// embedding has the methods of what it embeds.
type embedding struct{ connstring.ConnString }

func TestSecretsAreHiddenInEveryRendering(t *testing.T) {
	t.Parallel()
	for name, input := range map[string]string{
		"password":                 "chronicle://app:" + marker + "@node1",
		"apiKey":                   "chronicle://node1/?apiKey=" + marker,
		"certificatePassword":      "chronicle://node1/?certificatePath=c.pem&certificatePassword=" + marker,
		"password and certificate": "chronicle://app:" + marker + "@node1/?certificatePath=c.pem&certificatePassword=" + marker,
		"an escaped one":           "chronicle://app:%51" + marker[1:] + "@node1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := mustParse(t, input)
			if !strings.Contains(c.Unredacted(), marker) {
				t.Fatalf("Unredacted of %v lacks the secret: this test would prove nothing", c)
			}
			if !strings.Contains(c.String(), "***") {
				t.Errorf("got %q, want a mark for the secret", c.String())
			}
			requireHidden(t, c)
			requireHidden(t, *c)
			requireHidden(t, &c)
			secret := connstring.NewSecret(marker)
			h := holder{
				Exported: *c, value: *c, pointer: c, secret: secret, list: []connstring.Secret{secret},
				table: map[string]connstring.Secret{"key": secret}, any: *c,
			}
			requireHidden(t, h)
			requireHidden(t, &h)
			requireHidden(t, []connstring.ConnString{*c})
			requireHidden(t, map[string]*connstring.ConnString{"key": c})
			requireHidden(t, embedding{*c})
		})
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	secret := connstring.NewSecret(marker)
	requireHidden(t, secret)
	requireHidden(t, &secret)
	requireHidden(t, []connstring.Secret{secret})
	requireHidden(t, struct{ secret connstring.Secret }{secret})
	if got := secret.Reveal(); got != marker {
		t.Errorf("Reveal: got %q, want %q", got, marker)
	}
	if secret.IsZero() || !(connstring.Secret{}).IsZero() || !connstring.NewSecret("").IsZero() {
		t.Error("IsZero: want true for the empty text alone")
	}
	if !secret.Equal(connstring.NewSecret(marker)) || secret.Equal(connstring.NewSecret(marker+"x")) || secret.Equal(connstring.Secret{}) {
		t.Error("Equal: want true for the same text alone")
	}
}

func TestSecretFormats(t *testing.T) {
	t.Parallel()
	secret := connstring.NewSecret("hunter2")
	tests := []struct{ name, got, want string }{
		{"v", fmt.Sprintf("%v", secret), "***"},
		{"plus v", fmt.Sprintf("%+v", secret), "***"},
		{"sharp v", fmt.Sprintf("%#v", secret), `"***"`},
		{"q", fmt.Sprintf("%q", secret), `"***"`},
		{"x", fmt.Sprintf("%x", secret), "***"},
		{"empty v", fmt.Sprintf("%v", connstring.Secret{}), ""},
		{"empty q", fmt.Sprintf("%q", connstring.Secret{}), `""`},
		{"empty Reveal", connstring.Secret{}.Reveal(), ""},
		{"q of a string", fmt.Sprintf("%q", mustParse(t, "chronicle://a:b@c")), `"chronicle://a:***@c:35000"`},
		{"sharp v of a string", fmt.Sprintf("%#v", *mustParse(t, "chronicle://a:b@c")), `"chronicle://a:***@c:35000"`},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, tt.got, tt.want)
		}
	}
}

// TestErrorsHoldNothingOfTheInput plants the marker where a careless error would quote it.
func TestErrorsHoldNothingOfTheInput(t *testing.T) {
	t.Parallel()
	for name, input := range map[string]string{
		"no scheme":                     "app:" + marker + "@node1",
		"an unknown scheme":             marker + "://node1",
		"a raw at sign":                 "chronicle://app:" + marker + "@" + marker + "@node1",
		"a raw slash":                   "chronicle://app:" + marker + "/" + marker + "@node1",
		"a raw question mark":           "chronicle://app:" + marker + "?" + marker + "@node1",
		"a raw question mark and pairs": "chronicle://app:1?" + marker + "=" + marker + "&" + marker + "@node1",
		"a raw hash":                    "chronicle://app:1#" + marker + "@node1",
		"a raw blank":                   "chronicle://app:" + marker + " " + marker + "@node1",
		"a bad escape":                  "chronicle://app:" + marker + "%" + marker + "@node1",
		"a bad escape in the user":      "chronicle://" + marker + "%zz:x@node1",
		"a password without a user":     "chronicle://:" + marker + "@node1",
		"a secret alone":                "chronicle://" + marker + "@node1",
		"credentials without a host":    "chronicle://app:" + marker,
		"credentials that look listed":  "chronicle://app:" + marker + ",x/y@node1",
		"a bad port":                    "chronicle://node1:" + marker,
		"a bad host":                    "chronicle://" + marker + "!",
		"a bad IPv6 address":            "chronicle://[" + marker + "]",
		"a bad zone":                    "chronicle://[fe80::1%25" + marker + "!]",
		"a path":                        "chronicle://node1/" + marker,
		"a fragment":                    "chronicle://node1/#" + marker,
		"an unknown option's name":      "chronicle://node1/?" + marker + "=x",
		"an unknown option's value":     "chronicle://node1/?colour=" + marker,
		"a misspelt option's value":     "chronicle://node1/?apiKye=" + marker,
		"a raw ampersand in a key":      "chronicle://node1/?apiKey=x&" + marker,
		"a bad escape in a key":         "chronicle://node1/?apiKey=" + marker + "%",
		"a control byte in a key":       "chronicle://node1/?apiKey=" + marker + "\n",
		"a raw hash in a key":           "chronicle://node1/?apiKey=x#" + marker,
		"a bad escape in a name":        "chronicle://node1/?" + marker + "%=x",
		"an option twice":               "chronicle://node1/?apiKey=" + marker + "&apiKey=" + marker,
		"a bad strategy":                "chronicle://node1/?loadBalancer=" + marker,
		"a bad flag":                    "chronicle://node1/?skipTlsValidation=" + marker,
		"a bad auth":                    "chronicle://node1/?auth=" + marker,
		"a bad name server":             "chronicle+srv://node1/?srvNameServer=" + marker + "!",
		"TLS off":                       "chronicle://node1/?disableTls=" + marker,
		"too long":                      "chronicle://node1/?apiKey=" + strings.Repeat(marker, 10_000),
		"a conflict":                    "chronicle://app:" + marker + "@node1/?apiKey=" + marker,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := connstring.Parse(input)
			if err == nil {
				t.Fatalf("got %v, want an error", c)
			}
			requireHidden(t, err)
			requireHidden(t, errors.Join(err, fmt.Errorf("wrapped: %w", err)))
			e, ok := errors.AsType[*connstring.ParseError](err)
			if !ok {
				t.Fatalf("got a %T, want a *ParseError", err)
			}
			requireHidden(t, *e)
			if e.Offset < 0 || e.Offset > len(input) {
				t.Errorf("got offset %d, want one inside the %d bytes of the input", e.Offset, len(input))
			}
		})
	}
}

// TestCredentialsAreNeverTakenForHosts has strings whose password was not escaped, so that a part of it looks like a
// host, a port or an option. All must be blamed on the credentials.
func TestCredentialsAreNeverTakenForHosts(t *testing.T) {
	t.Parallel()
	for _, input := range []string{
		"chronicle://app:1234/x@node1",
		"chronicle://app:1234/@node1",
		"chronicle://app:12/34/56@node1",
		"chronicle://app:1234?x@node1",
		"chronicle://app:1234/?x@node1",
		"chronicle://app:1234?x=y@node1",
		"chronicle://app:1234#@node1",
		"chronicle://app/1234@node1",
		"chronicle://app?1234@node1",
		"chronicle://app:pass/word@node1",
		"chronicle://app:pass,word/x@node1",
		"chronicle://app:[::1/x@node1",
		"chronicle://app:p@ss/word@node1",
		"chronicle://app:p@ss@word@node1",
		"chronicle+srv://app:1234/x@cluster.example",
		"chronicle+srv://app,b/x@cluster.example",
		"chronicle+srv://app:1234?x@cluster.example",
	} {
		t.Run(input, func(t *testing.T) {
			t.Parallel()
			_, err := connstring.Parse(input)
			requireCode(t, err, connstring.CodeCredentialsUnescaped)
			e := parseError(t, err)
			if e.Part != connstring.PartCredentials || !strings.Contains(e.Hint, "%40") {
				t.Errorf("got part %q and hint %q, want credentials and how to escape them", e.Part, e.Hint)
			}
		})
	}
}

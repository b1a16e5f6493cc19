// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package secretform_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/evenkeel-go/evenkeel/internal/secretform"
)

const secret = `p@ss<w>&o(r)d/x "q" +7é%41 \z𝄞`

// written are the ways in which a text can show a secret.
func written(t testing.TB, secret string) map[string]string {
	t.Helper()
	encoded, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	every, octal, wide := "", "", ""
	for i := range len(secret) {
		every += fmt.Sprintf("%%%02x", secret[i])
		octal += fmt.Sprintf(`\%03o`, secret[i])
		wide += fmt.Sprintf(`\u%04x`, secret[i])
	}
	component := strings.ReplaceAll(url.QueryEscape(secret), "+", "%20")
	asInJavaScript := strings.NewReplacer("%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*").Replace(component)
	texts := map[string]string{
		"as it is": "a " + secret + " b", "quoted": fmt.Sprintf("%q", secret), "quoted in ASCII": fmt.Sprintf("%+q", secret),
		"in a form": url.QueryEscape(secret), "in a path": url.PathEscape(secret), "by JavaScript": asInJavaScript,
		"by Python": strings.ReplaceAll(component, "%2F", "/"), "every byte percent-encoded": every, "in octal": octal,
		"in small letters": strings.ToLower(component), "in JSON": string(encoded),
		"in JSON inside of JSON": strings.Trim(fmt.Sprintf("%q", encoded), `"`), "in a form inside of JSON": strings.ReplaceAll(url.QueryEscape(secret), "%", `\u0025`),
		"in hexadecimal": fmt.Sprintf("%x", secret), "in large hexadecimal": fmt.Sprintf("%X", secret),
	}
	for before := range 4 {
		text := strings.Repeat("x", before) + secret + strings.Repeat("y", 5)
		texts[fmt.Sprintf("in base64 behind %d bytes", before)] = base64.StdEncoding.EncodeToString([]byte(text))
		texts[fmt.Sprintf("in base64 for URLs behind %d bytes", before)] = base64.URLEncoding.EncodeToString([]byte(text))
		texts[fmt.Sprintf("in base64 in a form behind %d bytes", before)] = url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(text)))
	}
	if secret == "s3cretword" {
		texts["every byte as a code point"] = wide
	}
	return texts
}

func TestEveryFormIsFoundAndScrubbed(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{secret, "s3cretword", "100%25 sure"} {
		for name, text := range written(t, secret) {
			text = "before " + text + " after"
			if !secretform.Contains(text, "other secret", secret) {
				t.Errorf("%s: %q is not found", name, text)
			}
			got := secretform.Scrub(text, secret)
			if secretform.Contains(got, secret) || !strings.Contains(got, secretform.Mask) {
				t.Errorf("%s: got %q", name, got)
			}
			if !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
				t.Errorf("%s: what stands around the secret is gone from %q", name, got)
			}
		}
	}
}

func TestOnlyTheSecretIsMasked(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"a=%41&p=s3cret%77ord&b=%42":            "a=%41&p=***&b=%42",
		`{"\u0041":"s3cret\u0077ord","b":"\n"}`: `{"\u0041":"***","b":"\n"}`,
		"s3cretword s3cretwords3cretword":       "*** ******",
		"%73%33cretword, then s3cret%77%6frd":   "***, then ***",
		"50% of s3cretword\\":                   "50% of ***\\",
	}
	for text, want := range tests {
		if got := secretform.Scrub(text, "s3cretword"); got != want {
			t.Errorf("Scrub(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestTheBeginningOfATextShowsNoPartOfASecret(t *testing.T) {
	t.Parallel()
	for name, form := range written(t, "s3cretword") {
		text := "12345 " + form + strings.Repeat(" z", 1000)
		for length := range len(form) + 10 {
			got := secretform.ScrubFirst(length, text, "s3cretword")
			want := secretform.Scrub(text, "s3cretword")
			if begin, _, _ := strings.Cut(want, secretform.Mask); length > len(begin) && !strings.HasPrefix(got, begin+secretform.Mask) {
				t.Fatalf("%s: the first %d bytes of %q are %q", name, length, text, got)
			}
		}
	}
}

func TestOtherTextsAreLeftAlone(t *testing.T) {
	t.Parallel()
	const text = `the server said "no" to Bearer a, 100% + 5 \u12 %zz \`
	if got := secretform.Scrub(text, secret, "a", ""); got != text || secretform.Contains(text, secret, "a", "") {
		t.Errorf("got %q, want it unchanged", got)
	}
}

func FuzzScrub(f *testing.F) {
	for _, text := range written(f, "s3cretword") {
		f.Add(text, 10)
	}
	f.Add(`%u0041\ud834\udd1e\U00110000%`, 3)
	f.Fuzz(func(t *testing.T, text string, length int) {
		if got := secretform.Scrub(text, "s3cretword"); got != text && !strings.Contains(got, secretform.Mask) {
			t.Errorf("Scrub(%q) = %q", text, got)
		}
		secretform.ScrubFirst(max(0, length), text, "s3cretword")
	})
}

// A server may write what costs the most: escapes of every kind, and the secret many times.
func BenchmarkScrub(b *testing.B) {
	token := strings.Repeat("t", 1200)
	text := strings.Repeat(`%74\u0074+t`, 6000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		secretform.Scrub(text, token, token+"a", token+"b")
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package secretform

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Mask stands where a secret stood.
const Mask = "***"

// shortest is how long a secret must be to be looked for: a shorter one is in many texts by chance.
const shortest = 6

// Forms returns what a text with the secret in it contains at least one of: the secret, what percent-encoding, quoting and
// hexadecimal digits make of it, and what is certain of it inside base64, at each of its three alignments. A secret of less
// than six bytes has none.
func Forms(secret string) []string {
	if len(secret) < shortest {
		return nil
	}
	forms := []string{secret, url.QueryEscape(secret), url.PathEscape(secret)}
	var all strings.Builder
	for i := range len(secret) {
		all.WriteString("%" + strings.ToUpper(hex.EncodeToString([]byte{secret[i]})))
	}
	quoted := strconv.Quote(secret)
	forms = append(forms, all.String(), quoted[1:len(quoted)-1], hex.EncodeToString([]byte(secret)))
	for _, f := range slices.Clone(forms[1:4]) {
		forms = append(forms, lowerEscapes(f))
	}
	forms = append(forms, inBase64(secret)...)
	slices.Sort(forms)
	forms = slices.Compact(forms)
	// The longest first: a shorter one may be a part of it.
	slices.SortStableFunc(forms, func(a, b string) int { return len(b) - len(a) })
	return forms
}

// lowerEscapes writes the hexadecimal digits of percent-encodings in lower case.
func lowerEscapes(text string) string {
	b := []byte(text)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], strings.ToLower(string(b[i+1:i+3])))
		}
	}
	return string(b)
}

// inBase64 returns the characters of base64 that come from the secret alone, whatever stands before and behind it.
func inBase64(secret string) []string {
	var forms []string
	for before := range 3 {
		padded := make([]byte, before, before+len(secret))
		padded = append(padded, secret...)
		first, last := (before*8+5)/6, len(padded)*8/6
		for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			forms = append(forms, alphabet.EncodeToString(padded)[first:last])
		}
	}
	return forms
}

// Contains says whether a text shows one of the secrets.
func Contains(text string, secrets ...string) bool {
	for _, secret := range secrets {
		if slices.ContainsFunc(Forms(secret), func(form string) bool { return strings.Contains(text, form) }) {
			return true
		}
	}
	return false
}

// Scrub returns the text with Mask in place of the secrets.
func Scrub(text string, secrets ...string) string {
	for _, secret := range secrets {
		for _, form := range Forms(secret) {
			text = strings.ReplaceAll(text, form, Mask)
		}
	}
	return text
}

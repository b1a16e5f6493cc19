// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package secretform

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
)

// Mask stands where a secret stood.
const Mask = "***"

// shortest is how long a secret must be to be looked for: a shorter one is in many texts by chance.
const shortest = 6

// widest is how many bytes of a text one byte of a secret can take: two hexadecimal digits, each behind \u00.
const widest = 12

// forms returns what a text with the secret in it contains at least one of, once its escapes are decoded: the secret, its
// hexadecimal digits, and what is certain of it inside base64, at each of its three alignments. A secret of less than six
// bytes has none.
func forms(secret string) []string {
	if len(secret) < shortest {
		return nil
	}
	digits := hex.EncodeToString([]byte(secret))
	all := append([]string{secret, digits, strings.ToUpper(digits)}, inBase64(secret)...)
	slices.Sort(all)
	return slices.Compact(all)
}

// inBase64 returns the characters of base64 that come from the secret alone, whatever stands before and behind it.
func inBase64(secret string) []string {
	var all []string
	for before := range 3 {
		padded := make([]byte, before, before+len(secret))
		padded = append(padded, secret...)
		first, last := (before*8+5)/6, len(padded)*8/6
		for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			all = append(all, alphabet.EncodeToString(padded)[first:last])
		}
	}
	return all
}

// Contains says whether a text shows one of the secrets.
func Contains(text string, secrets ...string) bool {
	all := allForms(secrets)
	return eachView(text, func(view string, _ []step) bool {
		return slices.ContainsFunc(all, func(form string) bool { return strings.Contains(view, form) })
	})
}

// Scrub returns the text with Mask in place of the secrets.
func Scrub(text string, secrets ...string) string {
	return mask(text, len(text), spans(text, secrets))
}

// ScrubFirst returns the first bytes of the text, with Mask in place of the secrets, also of one of which they hold the
// beginning only. What it costs depends on the length that is wanted, and not on that of the text.
func ScrubFirst(length int, text string, secrets ...string) string {
	if len(text) <= length {
		return Scrub(text, secrets...)
	}
	longest := 0
	for _, secret := range secrets {
		longest = max(longest, len(secret))
	}
	text = text[:min(len(text), length+widest*longest)]
	return mask(text, length, spans(text, secrets))
}

func allForms(secrets []string) []string {
	var all []string
	for _, secret := range secrets {
		all = append(all, forms(secret)...)
	}
	return all
}

// span is where a secret stands in a text.
type span struct{ begin, end int }

// spans finds the secrets, in order and without an overlap.
func spans(text string, secrets []string) []span {
	all := allForms(secrets)
	var found []span
	eachView(text, func(view string, steps []step) bool {
		var here []span
		for _, form := range all {
			for at := 0; ; {
				n := strings.Index(view[at:], form)
				if n < 0 {
					break
				}
				here = append(here, span{at + n, at + n + len(form)})
				at += n + len(form)
			}
		}
		here = joined(here)
		for i := len(steps) - 1; i >= 0 && len(here) > 0; i-- {
			here = steps[i].origins(here)
		}
		found = append(found, here...)
		return false
	})
	return joined(found)
}

// joined sorts spans and makes one of those that overlap.
func joined(found []span) []span {
	slices.SortFunc(found, func(a, b span) int { return a.begin - b.begin })
	apart := found[:0]
	for _, s := range found {
		if last := len(apart) - 1; last >= 0 && s.begin < apart[last].end {
			apart[last].end = max(apart[last].end, s.end)
			continue
		}
		apart = append(apart, s)
	}
	return apart
}

// mask returns the first bytes of a text, with Mask in place of the spans.
func mask(text string, length int, secret []span) string {
	if len(secret) == 0 {
		return text[:length]
	}
	var b strings.Builder
	at := 0
	for _, s := range secret {
		if s.begin >= length {
			break
		}
		b.WriteString(text[at:s.begin])
		b.WriteString(Mask)
		at = s.end
	}
	if at < length {
		b.WriteString(text[at:length])
	}
	return b.String()
}

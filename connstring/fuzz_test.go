// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package connstring_test

import (
	"strings"
	"testing"

	"github.com/evenkeel-go/evenkeel/connstring"
)

// seedInputs adds every vector and every hard case to a fuzz target.
func seedInputs(f *testing.F, add func(string)) {
	f.Helper()
	for _, v := range readVectors[validVector](f, "valid.json") {
		add(v.Input)
		add(v.Unredacted)
	}
	for _, v := range readVectors[invalidVector](f, "invalid.json") {
		add(v.Input)
	}
	for _, input := range longInputs(256) {
		add(input)
	}
	add("chronicle://\xff:\xfe@a")
	add("chronicle://a\xff")
	add(strings.Repeat("%", 300))
}

// FuzzParse looks for panics, for values that do not survive a round trip, and for errors without a position.
func FuzzParse(f *testing.F) {
	seedInputs(f, func(s string) { f.Add(s) })
	f.Fuzz(func(t *testing.T, input string) {
		c, err := connstring.Parse(input)
		if err != nil {
			requireSoundError(t, input, err)
			return
		}
		if len(c.Hosts) == 0 {
			t.Fatal("a value without a host")
		}
		if compact := connstring.CompactForTest(c); len(compact) > len(input) {
			t.Fatalf("the compact form has %d bytes, the input had %d", len(compact), len(input))
		} else if again := mustParse(t, compact); !again.Equal(c) {
			t.Fatalf("the compact form parses to %v, want %v", again, c)
		}
		requireRoundTrip(t, c)
	})
}

// FuzzSecrets plants a marker behind any prefix and in front of any suffix, in the place of a password, a key, an
// option's name and an option's value, and looks for it in everything that is meant to be shown.
func FuzzSecrets(f *testing.F) {
	for _, odd := range []string{"", "@", "/", "?", "#", " ", "%", "%4", "1234/", "1?x=", "&", ",", "[", "]", ":", "@h/?", "\n", "apiKey="} {
		f.Add(odd, "", uint8(0))
		f.Add("", odd, uint8(1))
		f.Add(odd, odd, uint8(2))
		f.Add("", odd, uint8(3))
	}
	places := []struct{ head, tail string }{
		{"chronicle://app:", "@node1"},
		{"chronicle://node1/?apiKey=", ""},
		{"chronicle+srv://name/?certificatePath=p&certificatePassword=", "&skipTlsValidation=true"},
		{"chronicle://node1/?colour=", ""},
		{"chronicle://node1/?", "=x"},
		{"chronicle://", "@node1"},
	}
	f.Fuzz(func(t *testing.T, prefix, suffix string, place uint8) {
		if containsMarker(prefix + suffix) {
			return // the marker would no longer be where it was planted
		}
		at := places[int(place)%len(places)]
		input := at.head + prefix + marker + suffix + at.tail
		c, err := connstring.Parse(input)
		if err != nil {
			requireSoundError(t, input, err)
			requireHidden(t, err)
			return
		}
		// The prefix can end the secret and put the marker where it is none: then it may be shown.
		if containsMarker(c.Username) || containsMarker(c.CertificatePath) || containsMarker(c.SRVNameServer) || containsMarker(c.Hosts[0].Name) {
			return
		}
		for _, h := range c.Hosts {
			if containsMarker(h.Name) {
				return
			}
		}
		requireHidden(t, c)
		requireHidden(t, *c)
		requireHidden(t, holder{value: *c, pointer: c, secret: c.Password, any: *c})
	})
}

func containsMarker(s string) bool {
	return strings.Contains(strings.ToLower(s), strings.ToLower(marker))
}

// requireSoundError fails unless the error has every field that a caller relies on.
func requireSoundError(tb testing.TB, input string, err error) {
	tb.Helper()
	e, ok := err.(*connstring.ParseError) //nolint:errorlint // the type itself is the promise, not one further down
	if !ok {
		tb.Fatalf("got a %T, want a *ParseError", err)
	}
	if e.Code == "" || e.Part == "" || e.Reason == "" {
		tb.Fatalf("got an error that lacks its code, part or reason: %#v", e)
	}
	if e.Offset < 0 || e.Offset > len(input) {
		tb.Fatalf("got offset %d, want one inside the %d bytes of the input", e.Offset, len(input))
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"
)

const sharedKey = "0123456789abcdef0123456789abcdef"

func TestTokensOfAKeyAreValidWhereTheKeyIsUntilTheyExpire(t *testing.T) {
	t.Parallel()
	here, there := newSharedTokens(sharedKey, time.Hour), newSharedTokens(sharedKey, time.Minute)
	other := newSharedTokens(strings.ToUpper(sharedKey), time.Hour)
	now := time.Unix(1900000000, 999_999_999)
	token := here.issue(now)
	if token == here.issue(now) {
		t.Error("two tokens are the same")
	}
	tests := []struct {
		name string
		by   *sharedTokens
		at   time.Time
		want bool
	}{
		{"here", here, now, true},
		{"on another server with the key", there, now.Add(59 * time.Minute), true},
		{"on a server with another key", other, now, false},
		{"to the end of its time", here, now.Add(time.Hour - time.Nanosecond), true},
		{"after its time, which ends with a second", here, now.Add(time.Hour + time.Second), false},
	}
	for _, tt := range tests {
		if got := tt.by.valid(token, tt.at); got != tt.want {
			t.Errorf("%s: valid is %v, want %v", tt.name, got, tt.want)
		}
	}
	for i := range token {
		spoiled := []byte(token)
		spoiled[i] ^= 1
		if here.valid(string(spoiled), now) {
			t.Errorf("valid although byte %d was changed", i)
		}
	}
}

// FuzzSharedToken reads tokens of strangers: none is valid that was not given.
func FuzzSharedToken(f *testing.F) {
	// Fuzzing runs in several processes, which hand texts to each other: with a key of its own none is given by another.
	s := newSharedTokens(rand.Text()+rand.Text(), time.Hour)
	now := time.Now()
	given := s.issue(now)
	f.Add(given[:len(given)-1])
	f.Add(given + "=")
	f.Add(sharedPrefix)
	f.Add("eyJhbGciOi.J9.x")
	f.Fuzz(func(t *testing.T, token string) {
		if token != given && s.valid(token, now) {
			t.Errorf("%q is valid", token)
		}
	})
}

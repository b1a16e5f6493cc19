// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"
)

// minTokenKey is how long a key of tokens must be: who holds a token can try keys.
const minTokenKey = 32

// sharedTokens are tokens that every server with the same key accepts. Nothing is remembered of them: a token says when it
// expires, and its code says that it was given with the key. It is immutable.
type sharedTokens struct {
	key  []byte
	life time.Duration
}

// sharedPrefix tells these tokens from others before any computing.
const sharedPrefix = "ek1."

// sharedBody is the length of a token's body: the second in which it expires, and random bytes that make it unique.
const sharedBody = 8 + 16

func newSharedTokens(key string, life time.Duration) *sharedTokens {
	// The key may serve for other things too: what is signed here is signed with one that is made of it for this.
	derived := hmac.New(sha256.New, []byte(key))
	_, _ = derived.Write([]byte("evenkeel bearer token 1")) // a hash takes everything
	return &sharedTokens{key: derived.Sum(nil), life: life}
}

// issue makes a token.
func (s *sharedTokens) issue(now time.Time) string {
	var body [sharedBody]byte
	expires := now.Add(s.life + time.Second - 1).Unix()   // a part of a second counts as a whole one
	binary.BigEndian.PutUint64(body[:8], uint64(expires)) //nolint:gosec // after 1970
	_, _ = rand.Read(body[8:])                            // it never fails, says its documentation
	return sharedPrefix + base64.RawURLEncoding.EncodeToString(append(body[:], s.code(body[:])...))
}

// valid says whether a token was given with the key and has not expired.
func (s *sharedTokens) valid(token string, now time.Time) bool {
	text, ok := strings.CutPrefix(token, sharedPrefix)
	if !ok || len(text) != base64.RawURLEncoding.EncodedLen(sharedBody+sha256.Size) {
		return false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return false
	}
	body, code := raw[:sharedBody], raw[sharedBody:]
	if !hmac.Equal(code, s.code(body)) {
		return false
	}
	return uint64(now.Unix()) < binary.BigEndian.Uint64(body[:8]) //nolint:gosec // after 1970
}

func (s *sharedTokens) code(body []byte) []byte {
	h := hmac.New(sha256.New, s.key)
	_, _ = h.Write(body) // a hash takes everything
	return h.Sum(nil)
}

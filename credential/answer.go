// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package credential

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// unknownLife is how long a token is taken to live whose answer does not say it.
	unknownLife = time.Hour
	// maxLife bounds what an answer can claim. A token that was refused is renewed all the same.
	maxLife = 30 * 24 * time.Hour
	// maxToken is how long a token may be: it goes in a header with each call, of which servers take 8 KiB and more.
	maxToken = 32 << 10
)

// answer is what a token endpoint gave.
type answer struct {
	token string
	life  time.Duration
}

// parseAnswer reads the answer of a token endpoint (RFC 6749 sections 5.1 and 5.2). It is lenient where servers differ and
// nothing depends on it: names in any letter case, an expires_in that is a string, a missing token type. The error has no
// place yet.
func parseAnswer(status int, body []byte) (answer, *TokenError) {
	var fields struct {
		AccessToken json.RawMessage `json:"access_token"`
		TokenType   json.RawMessage `json:"token_type"`
		ExpiresIn   json.RawMessage `json:"expires_in"`
		Error       json.RawMessage `json:"error"`
	}
	malformed := json.Unmarshal(body, &fields) != nil
	code := knownCode(text(fields.Error))
	switch {
	case status >= 300 && status < 400:
		return answer{}, &TokenError{Reason: ReasonRedirect, Status: status}
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusBadRequest && code != "":
		return answer{}, &TokenError{Reason: ReasonRefused, Status: status, Code: code}
	case status < 200 || status >= 300:
		return answer{}, &TokenError{Reason: ReasonStatus, Status: status, Code: code}
	case code != "": // some answer 200 in this case too
		return answer{}, &TokenError{Reason: ReasonRefused, Status: status, Code: code}
	case malformed:
		return answer{}, &TokenError{Reason: ReasonMalformed, Status: status}
	}
	a := answer{token: text(fields.AccessToken), life: lifeOf(fields.ExpiresIn)}
	kind := text(fields.TokenType)
	if !sendable(a.token) || kind != "" && !strings.EqualFold(kind, "bearer") || kind == "" && given(fields.TokenType) {
		return answer{}, &TokenError{Reason: ReasonMalformed, Status: status}
	}
	return a, nil
}

// given says that a member is there and is not null.
func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// text is the value of a JSON string; empty for anything else.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// sendable says whether a token can go in a header: RFC 6750 section 2.1 allows less than the visible characters of ASCII.
func sendable(token string) bool {
	if token == "" || len(token) > maxToken {
		return false
	}
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return false
		}
	}
	return true
}

// lifeOf reads an expires_in, a number or a string with one. What is missing, is no number or is not positive says
// nothing, and a part of a second counts as a whole one.
func lifeOf(raw json.RawMessage) time.Duration {
	digits := strings.TrimSpace(text(raw))
	if digits == "" {
		digits = string(raw)
	}
	seconds, err := strconv.ParseFloat(digits, 64)
	switch {
	case err != nil && !math.IsInf(seconds, 1), math.IsNaN(seconds), seconds <= 0:
		return unknownLife
	case seconds >= maxLife.Seconds():
		return maxLife
	default:
		return time.Duration(math.Ceil(seconds)) * time.Second
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"encoding/json"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"
)

// maxTokenRequest is how long a request for a token may be.
const maxTokenRequest = 16 << 10

// Handler returns the token endpoint (RFC 6749 section 4.4): a POST with grant_type=client_credentials, client_id and
// client_secret in a form. It answers 404 when there are no Clients. It looks at the form only: mount it at TokenPath of a
// mux of your own, without authentication in front.
func (a *Authenticator) Handler() http.Handler { return http.HandlerFunc(a.serveToken) }

// Require lets only requests with a valid token through to next, and answers 401 to the rest.
func (a *Authenticator) Require(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		values := req.Header.Values("Authorization")
		switch {
		case len(values) == 0:
			w.Header().Set("WWW-Authenticate", "Bearer")
		case len(values) > 1 || a.checkHeader(req.Context(), values[0]) != nil:
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		default:
			next.ServeHTTP(w, req)
			return
		}
		w.Header()["Cache-Control"] = noStore
		http.Error(w, "this needs a valid bearer token", http.StatusUnauthorized)
		hurryBody(w, req)
	})
}

// serveToken gives a token to a client.
func (a *Authenticator) serveToken(w http.ResponseWriter, req *http.Request) {
	if len(a.secrets) == 0 {
		http.NotFound(w, req)
		return
	}
	w.Header()["Cache-Control"] = noStore
	hurryBody(w, req)
	if req.Method != http.MethodPost {
		refuseMethod(w, http.MethodPost)
		return
	}
	from, now := sourceOfText(req.RemoteAddr), time.Now()
	if a.blocked(from, now) { // before anything is read
		a.tellToWait(w)
		return
	}
	code, status := a.judge(w, req)
	if !a.mayTell(from, time.Now(), code != "") {
		a.tellToWait(w)
		return
	}
	if code != "" {
		a.logger.Debug("refused a token", slog.String("peer", req.RemoteAddr), slog.String("error", code))
		answerJSON(w, status, map[string]any{"error": code})
		return
	}
	answerJSON(w, http.StatusOK, map[string]any{
		"access_token": a.issue(time.Now()), "token_type": "Bearer", "expires_in": int64(a.tokens.life / time.Second),
	})
}

// tellToWait answers somebody who has been refused too often of late.
func (a *Authenticator) tellToWait(w http.ResponseWriter) {
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(1/float64(a.failures.rate)))))
	http.Error(w, "too many requests were refused, wait a moment", http.StatusTooManyRequests)
}

// judge reads a request for a token. It returns an error code of RFC 6749 section 5.2 and the status that goes with it, or
// none when the client is to have its token.
func (a *Authenticator) judge(w http.ResponseWriter, req *http.Request) (code string, status int) {
	req.Body = http.MaxBytesReader(w, req.Body, maxTokenRequest)
	if req.ParseForm() != nil {
		return "invalid_request", http.StatusBadRequest
	}
	for _, name := range []string{"grant_type", "client_id", "client_secret"} {
		if len(req.PostForm[name]) != 1 {
			return "invalid_request", http.StatusBadRequest
		}
	}
	if req.PostForm.Get("grant_type") != "client_credentials" {
		return "unsupported_grant_type", http.StatusBadRequest
	}
	if !a.checkClient(req.PostForm.Get("client_id"), req.PostForm.Get("client_secret")) {
		return "invalid_client", http.StatusUnauthorized
	}
	return "", http.StatusOK
}

// answerJSON answers with an object of texts and numbers.
func answerJSON(w http.ResponseWriter, status int, object map[string]any) {
	body, err := json.Marshal(object)
	if err != nil { // texts and numbers always can
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header()["Content-Type"] = jsonType
	w.Header().Set("Pragma", "no-cache") // RFC 6749 section 5.1
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
}

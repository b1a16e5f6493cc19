// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package credential_test

import (
	"strings"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/credential"
)

// answers are what token endpoints send, good and bad.
var answers = []struct {
	name   string
	status int
	body   string
	token  string
	life   time.Duration
	reason credential.Reason // 0 when there is a token
	code   string
}{
	{name: "a stock server's", status: 200, body: `{"access_token":"CfDJ8","token_type":"Bearer","expires_in":3599}`, token: "CfDJ8", life: 3599 * time.Second},
	{name: "a JWT", status: 200, body: `{"access_token":"a.b-_c.d=="}`, token: "a.b-_c.d==", life: time.Hour},
	{name: "names in other letters", status: 200, body: `{"Access_Token":"a","TOKEN_TYPE":"bearer"}`, token: "a", life: time.Hour},
	{name: "more than was asked for", status: 200, body: `{"access_token":"a","scope":["x"],"x":{"y":1}}`, token: "a", life: time.Hour},
	{name: "status 201", status: 201, body: `{"access_token":"a"}`, token: "a", life: time.Hour},
	{name: "a life as a string", status: 200, body: `{"access_token":"a","expires_in":" 60 "}`, token: "a", life: time.Minute},
	{name: "a life with a fraction", status: 200, body: `{"access_token":"a","expires_in":0.25}`, token: "a", life: time.Second},
	{name: "no life left", status: 200, body: `{"access_token":"a","expires_in":0}`, token: "a", life: time.Hour},
	{name: "a negative life", status: 200, body: `{"access_token":"a","expires_in":-1}`, token: "a", life: time.Hour},
	{name: "a huge life", status: 200, body: `{"access_token":"a","expires_in":99999999999999999999}`, token: "a", life: 30 * 24 * time.Hour},
	{name: "a life beyond all numbers", status: 200, body: `{"access_token":"a","expires_in":"1e999"}`, token: "a", life: 30 * 24 * time.Hour},
	{name: "a life of words", status: 200, body: `{"access_token":"a","expires_in":"soon"}`, token: "a", life: time.Hour},
	{name: "no number", status: 200, body: `{"access_token":"a","expires_in":"NaN"}`, token: "a", life: time.Hour},
	{name: "a life of another type", status: 200, body: `{"access_token":"a","expires_in":{"s":1}}`, token: "a", life: time.Hour},
	{name: "null", status: 200, body: `{"access_token":"a","token_type":null,"expires_in":null}`, token: "a", life: time.Hour},

	{name: "nothing", status: 200, body: ``, reason: credential.ReasonMalformed},
	{name: "HTML", status: 200, body: `<!doctype html>`, reason: credential.ReasonMalformed},
	{name: "a list", status: 200, body: `["a"]`, reason: credential.ReasonMalformed},
	{name: "a token that is a number", status: 200, body: `{"access_token":1}`, reason: credential.ReasonMalformed},
	{name: "an empty token", status: 200, body: `{"access_token":""}`, reason: credential.ReasonMalformed},
	{name: "a token with a line break", status: 200, body: `{"access_token":"a\r\nx: y"}`, reason: credential.ReasonMalformed},
	{name: "a token beyond ASCII", status: 200, body: `{"access_token":"ä"}`, reason: credential.ReasonMalformed},
	{name: "a token that is too long", status: 200, body: `{"access_token":"` + strings.Repeat("a", 32<<10+1) + `"}`, reason: credential.ReasonMalformed},
	{name: "another type of token", status: 200, body: `{"access_token":"a","token_type":"mac"}`, reason: credential.ReasonMalformed},
	{name: "a type that is a number", status: 200, body: `{"access_token":"a","token_type":1}`, reason: credential.ReasonMalformed},
	{name: "something behind the object", status: 200, body: `{"access_token":"a"} x`, reason: credential.ReasonMalformed},

	{name: "a wrong secret", status: 401, body: `{"error":"invalid_client"}`, reason: credential.ReasonRefused, code: "invalid_client"},
	{name: "401 and HTML", status: 401, body: `<html>`, reason: credential.ReasonRefused},
	{name: "forbidden", status: 403, body: ``, reason: credential.ReasonRefused},
	{name: "400 with a code", status: 400, body: `{"error":"unauthorized_client"}`, reason: credential.ReasonRefused, code: "unauthorized_client"},
	{name: "400 with another code", status: 400, body: `{"error":"my own"}`, reason: credential.ReasonStatus},
	{name: "200 with a code", status: 200, body: `{"error":"invalid_scope"}`, reason: credential.ReasonRefused, code: "invalid_scope"},
	{name: "a redirect", status: 302, body: `{"access_token":"a"}`, reason: credential.ReasonRedirect},
	{name: "down", status: 503, body: `{"access_token":"a"}`, reason: credential.ReasonStatus},
	{name: "no endpoint", status: 404, body: ``, reason: credential.ReasonStatus},
}

func TestAnswersOfTokenEndpoints(t *testing.T) {
	t.Parallel()
	for _, tt := range answers {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			token, life, err := credential.ParseAnswerForTest(tt.status, []byte(tt.body))
			if tt.reason == 0 {
				if err != nil || token != tt.token || life != tt.life {
					t.Errorf("got %q for %v, %v, want %q for %v", token, life, err, tt.token, tt.life)
				}
				return
			}
			if err == nil || err.Reason != tt.reason || err.Code != tt.code || err.Status != tt.status {
				t.Errorf("got %q, %+v, want reason %q and code %q", token, err, tt.reason, tt.code)
			}
		})
	}
}

func FuzzAnswer(f *testing.F) {
	for _, tt := range answers {
		f.Add(tt.status, []byte(tt.body))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		token, life, err := credential.ParseAnswerForTest(status, body)
		switch {
		case err != nil && token != "":
			t.Errorf("a token and an error: %q, %v", token, err)
		case err != nil:
			// What an error says depends on the status and on a code of a short list.
			if _, _, same := credential.ParseAnswerForTest(status, []byte(`{"error":"`+err.Code+`"}`)); err.Code != "" && (same == nil || same.Error() != err.Error()) {
				t.Errorf("the error %q holds more than its code", err)
			}
		case !credential.SendableForTest(token):
			t.Errorf("the token %q cannot be sent", token)
		case life < time.Second || life > 30*24*time.Hour:
			t.Errorf("the life is %v, want it between 1 s and 30 days", life)
		case status < 200 || status > 299:
			t.Errorf("a token from status %d", status)
		}
	})
}

func TestTheHeadStartOfARenewal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		life           time.Duration
		least, longest time.Duration
	}{
		{time.Hour, time.Minute, 7 * time.Minute},
		{4 * time.Minute, time.Minute, 84 * time.Second},
		{40 * time.Second, 10 * time.Second, 14 * time.Second},
		{time.Second, 250 * time.Millisecond, 350 * time.Millisecond},
	} {
		if got := credential.HeadStartForTest(tt.life, 0); got != tt.least {
			t.Errorf("life %v: the least head start is %v, want %v", tt.life, got, tt.least)
		}
		if got := credential.HeadStartForTest(tt.life, 1); got != tt.longest {
			t.Errorf("life %v: the longest head start is %v, want %v", tt.life, got, tt.longest)
		}
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package credential_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"golang.org/x/oauth2"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/credential"
)

func secretOf(text string) credential.Secret { return connstring.NewSecret(text) }

// shown is everything that printing a value can bring to light.
func shown(t *testing.T, v any) string {
	t.Helper()
	var text bytes.Buffer
	fmt.Fprintf(&text, "%v %+v %#v %s %q", v, v, v, v, v)
	slog.New(slog.NewJSONHandler(&text, nil)).Info("log", "value", v)
	slog.New(slog.NewTextHandler(&text, nil)).Info("log", "value", v)
	if encoded, err := json.Marshal(v); err == nil {
		text.Write(encoded)
	}
	if err, ok := v.(error); ok {
		text.WriteString(err.Error() + status.Convert(err).String())
	}
	return text.String()
}

func TestNoValueShowsASecretOrAToken(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	b := at(t, s, place(&endpoint{}))
	wantToken(t, b, "token-1")
	key, err := credential.NewAPIKey(secretOf("planted-key"), credential.Place{})
	if err != nil {
		t.Fatal(err)
	}
	own, err := credential.NewTokenSource(oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "token-own"}))
	if err != nil {
		t.Fatal(err)
	}
	config := credential.ClientCredentialsConfig{ClientID: "app", ClientSecret: secretOf(planted)}
	bare := credential.ClientCredentialsConfig{ClientID: "app", ClientSecret: bareSecret(planted)}
	for _, v := range []any{s, b, key, &key, own, config, &config, bare, &bare, place(nil)} {
		text := shown(t, v)
		for _, secret := range []string{planted, "planted", "token-1", "token-own"} {
			if strings.Contains(text, secret) {
				t.Errorf("%T shows %q in %s", v, secret, text)
			}
		}
	}
}

// bareSecret is a secret of a program's own, which does not hide itself.
type bareSecret string

func (s bareSecret) Reveal() string { return string(s) }

func TestValuesPrintAsOnePhraseWithoutTheirInsides(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	key, err := credential.NewAPIKey(secretOf("planted-key"), credential.Place{})
	if err != nil {
		t.Fatal(err)
	}
	own, err := credential.NewTokenSource(oauth2.StaticTokenSource(nil))
	if err != nil {
		t.Fatal(err)
	}
	config := credential.ClientCredentialsConfig{ClientID: "app", ClientSecret: bareSecret(planted), CacheDir: "tokens"}
	for want, v := range map[string]any{
		"bearer token (***)": at(t, s, place(&endpoint{})),
		"API key (***)":      key,
		"source of tokens by client credentials (***)": s,
		"source of tokens of the program's own (***)":  own,
		`client "app" (***), tokens kept in "tokens"`:  config,
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if got := fmt.Sprintf(verb, v); got != want {
				t.Errorf("%s of %T is %q, want %q", verb, v, got, want)
			}
		}
	}
}

func TestErrorsShowNothingThatTheEndpointEchoes(t *testing.T) {
	t.Parallel()
	answers := map[string]func() (int, string){
		"the secret as the code":        func() (int, string) { return 400, `{"error":"` + planted + `"}` },
		"the secret in the description": func() (int, string) { return 401, `{"error":"invalid_client","error_description":"` + planted + `"}` },
		"the secret as the body":        func() (int, string) { return 200, planted },
		"the secret as the type":        func() (int, string) { return 200, `{"access_token":"a","token_type":"` + planted + `"}` },
		"the secret as the life":        func() (int, string) { return 200, `{"access_token":"","expires_in":"` + planted + `"}` },
		"the secret of a broken server": func() (int, string) { return 500, planted },
	}
	for name, answer := range answers {
		e := &endpoint{fail: answer}
		b := at(t, newSource(t), place(e))
		err := b.Ready(t.Context())
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		_, callErr := token(t.Context(), b)
		if text := shown(t, err) + shown(t, callErr); strings.Contains(text, planted) {
			t.Errorf("%s: the secret shows in %s", name, text)
		}
	}
}

func TestOwnTokenSourcesFailInTypedErrors(t *testing.T) {
	t.Parallel()
	ready := func(source oauth2.TokenSource) error {
		s, err := credential.NewTokenSource(source)
		if err != nil {
			t.Fatal(err)
		}
		return at(t, s, credential.Place{}).Ready(t.Context())
	}
	panics := tokenFunc(func() (*oauth2.Token, error) { panic(planted) })
	tests := map[string]oauth2.TokenSource{
		"a panic":                        panics,
		"an error that is a nil pointer": tokenFunc(func() (*oauth2.Token, error) { var err *brokenError; return nil, err }),
		"an answer that is one":          tokenFunc(func() (*oauth2.Token, error) { var err *oauth2.RetrieveError; return nil, err }),
		"no token":                       tokenFunc(func() (*oauth2.Token, error) { return nil, nil }),
		"a newline":                      oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "a\nb"}),
		"an answer":                      tokenFunc(func() (*oauth2.Token, error) { return nil, &oauth2.RetrieveError{Body: []byte(planted)} }),
		"an error":                       tokenFunc(func() (*oauth2.Token, error) { return nil, errors.New("no luck") }),
	}
	for name, source := range tests {
		err := ready(source)
		if _, ok := errors.AsType[*credential.TokenError](err); !ok || strings.Contains(shown(t, err), planted) {
			t.Errorf("%s: got %v, want a *TokenError that shows nothing", name, err)
		}
	}
	refused := tokenFunc(func() (*oauth2.Token, error) { return nil, &oauth2.RetrieveError{ErrorCode: "invalid_client"} })
	if err := ready(refused); !errors.Is(err, credential.ErrRefused) {
		t.Errorf("a refusal is %v, want %v", err, credential.ErrRefused)
	}
}

// brokenError has no text when it is a nil pointer.
type brokenError struct{ text string }

func (e *brokenError) Error() string { return e.text }

type tokenFunc func() (*oauth2.Token, error)

func (f tokenFunc) Token() (*oauth2.Token, error) { return f() }

func TestPlacesThatCannotBeMeantAreRefused(t *testing.T) {
	t.Parallel()
	client := place(&endpoint{}).Client
	for name, p := range map[string]credential.Place{
		"plaintext":      {URL: "http://a/connect/token", Client: client},
		"a user":         {URL: "https://u:" + "planted" + "@a/connect/token", Client: client},
		"a query":        {URL: "https://a/connect/token?client_secret=planted", Client: client},
		"not a URL":      {URL: "planted://%zz", Client: client},
		"no client":      {URL: "https://a/connect/token"},
		"no host":        {URL: "https:///connect/token", Client: client},
		"another scheme": {URL: "ftp://a/connect/token", Client: client, Plaintext: true},
	} {
		if _, err := newSource(t).At(p); err == nil || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: got %v, want an error that shows nothing", name, err)
		}
	}
}

func TestSecretsNeedTLSUnlessAskedOtherwise(t *testing.T) {
	t.Parallel()
	safe := at(t, newSource(t), place(&endpoint{}))
	p := place(&endpoint{})
	p.Plaintext = true
	open := at(t, newSource(t), p)
	safeKey, err := credential.NewAPIKey(secretOf("k"), credential.Place{})
	if err != nil {
		t.Fatal(err)
	}
	openKey, err := credential.NewAPIKey(secretOf("k"), credential.Place{Plaintext: true})
	if err != nil {
		t.Fatal(err)
	}
	if !safe.RequireTransportSecurity() || !safeKey.RequireTransportSecurity() {
		t.Error("secrets may go without TLS")
	}
	if open.RequireTransportSecurity() || openKey.RequireTransportSecurity() {
		t.Error("a plaintext place insists on TLS")
	}
	if md, err := safeKey.GetRequestMetadata(t.Context()); err != nil || md["api-key"] != "k" {
		t.Errorf("the metadata is %v, %v", md, err)
	}
}

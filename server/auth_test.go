// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/server"
)

// planted is a secret that must show up nowhere.
const planted = "pl@nted secret"

func newAuth(t *testing.T, config server.AuthConfig) *server.Authenticator {
	t.Helper()
	if config.Clients == nil {
		config.Clients = []server.AuthClient{{ID: "app", Secret: connstring.NewSecret(planted)}}
	}
	auth, err := server.NewAuthenticator(config)
	if err != nil {
		t.Fatal(err)
	}
	return auth
}

// guarded is a server that asks for tokens, as its clients reach it.
type guarded struct {
	*fixture
	http *http.Client
	conn *grpc.ClientConn
}

func startGuarded(t *testing.T, config server.Config) guarded {
	t.Helper()
	f := serveTCP(t, config)
	return guarded{fixture: f, http: f.httpClient(t, 2), conn: f.grpcConn(t)}
}

// form is a request for a token.
func form(id, secret string) url.Values {
	return url.Values{"grant_type": {"client_credentials"}, "client_id": {id}, "client_secret": {secret}}
}

// ask posts a form to the token endpoint.
func (g guarded) ask(t *testing.T, form url.Values) (*http.Response, string) {
	t.Helper()
	res, err := g.http.PostForm(g.url(server.TokenPath), form)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // it has been read
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// token gets a token.
func (g guarded) token(t *testing.T) string {
	t.Helper()
	res, body := g.ask(t, form("app", planted))
	var answer struct {
		AccessToken string `json:"access_token"`
		TokenType   string `json:"token_type"`
		ExpiresIn   int    `json:"expires_in"`
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("status %d, body %q: %v", res.StatusCode, body, err)
	}
	if answer.TokenType != "Bearer" || answer.ExpiresIn != 3600 || len(answer.AccessToken) != 43 {
		t.Errorf("answer %+v, want a Bearer token of 43 characters for 3600 s", answer)
	}
	if got := res.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control is %q, want no-store", got)
	}
	return answer.AccessToken
}

// with puts an authorization on the calls of a context.
func with(ctx context.Context, values ...string) context.Context {
	for _, v := range values {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", v)
	}
	return ctx
}

func (g guarded) call(ctx context.Context) error {
	_, err := clientspb.NewConnectionServiceClient(g.conn).GetConnectedClients(ctx, &emptypb.Empty{})
	return err
}

func TestACallNeedsAValidToken(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, server.Config{Auth: newAuth(t, server.AuthConfig{})})
	foreign := startGuarded(t, server.Config{Auth: newAuth(t, server.AuthConfig{})}).token(t)
	good := g.token(t)
	tests := []struct {
		name   string
		values []string
		want   codes.Code
	}{
		{"a good token", []string{"Bearer " + good}, codes.OK},
		{"another case", []string{"bearer " + good}, codes.OK},
		{"none", nil, codes.Unauthenticated},
		{"an empty one", []string{"Bearer "}, codes.Unauthenticated},
		{"a bad one", []string{"Bearer " + strings.Repeat("x", 43)}, codes.Unauthenticated},
		{"that of another server", []string{"Bearer " + foreign}, codes.Unauthenticated},
		{"without a scheme", []string{good}, codes.Unauthenticated},
		{"basic", []string{"Basic " + good}, codes.Unauthenticated},
		{"two", []string{"Bearer " + good, "Bearer " + good}, codes.Unauthenticated},
		{"cut off", []string{"Bearer " + good[:42]}, codes.Unauthenticated},
		{"a long one", []string{"Bearer " + strings.Repeat("x", 40<<10)}, codes.Unauthenticated},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := g.call(with(t.Context(), tt.values...))
			if got := status.Code(err); got != tt.want {
				t.Errorf("a call: %v, want %v", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), good) {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
}

func TestAStreamWithABadTokenTouchesNothing(t *testing.T) {
	t.Parallel()
	registry := server.NewRegistry(server.RegistryConfig{})
	t.Cleanup(registry.Close)
	g := startGuarded(t, server.Config{Registry: registry, Auth: newAuth(t, server.AuthConfig{})})
	ctx := with(t.Context(), "Bearer nonsense")
	stream, err := clientspb.NewConnectionServiceClient(g.conn).Connect(ctx, &clientspb.ConnectRequest{ConnectionId: "a"})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("Connect: %v, want Unauthenticated", err)
	}
	if got := registry.Count(); got != 0 {
		t.Errorf("the count is %d, want 0", got)
	}
}

func TestWhatAStockServerLeavesOpenIsAnonymous(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, server.Config{Auth: newAuth(t, server.AuthConfig{})})
	service := clientspb.NewConnectionServiceClient(g.conn)
	if _, err := service.GetDescriptorSet(t.Context(), &emptypb.Empty{}); status.Code(err) == codes.Unauthenticated {
		t.Errorf("GetDescriptorSet: %v", err)
	}
	if _, err := service.CheckCompatibility(t.Context(), &clientspb.CompatibilityRequest{}); status.Code(err) == codes.Unauthenticated {
		t.Errorf("CheckCompatibility: %v", err)
	}
	if _, err := grpc_health_v1.NewHealthClient(g.conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
	for path, method := range map[string]string{
		"/connections/count": http.MethodGet, "/connections/reserve": http.MethodPost, "/health": http.MethodGet,
	} {
		req, err := http.NewRequest(method, g.url(path), nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := g.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close() // read by nobody
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s %s: status %d, want 200", method, path, res.StatusCode)
		}
	}
}

func TestReflectionIsBehindAuthentication(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, server.Config{Auth: newAuth(t, server.AuthConfig{})})
	list := func(ctx context.Context) error {
		stream, err := reflectionv1.NewServerReflectionClient(g.conn).ServerReflectionInfo(ctx)
		if err != nil {
			return err
		}
		request := &reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}
		if err := stream.Send(request); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		_, err = stream.Recv()
		return err
	}
	if err := list(t.Context()); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a token: %v, want Unauthenticated", err)
	}
	if err := list(with(t.Context(), "Bearer "+g.token(t))); err != nil {
		t.Errorf("with a token: %v", err)
	}
}

func TestTheTokenEndpointRefusesAsRFC6749Says(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, server.Config{Auth: newAuth(t, server.AuthConfig{FailureBurst: 1000})})
	other := func(name, value string) url.Values {
		f := form("app", planted)
		f.Set(name, value)
		return f
	}
	twice := form("app", planted)
	twice.Add("client_secret", "more")
	tests := []struct {
		name   string
		form   url.Values
		status int
		code   string
	}{
		{"a wrong secret", other("client_secret", "wrong"), 401, "invalid_client"},
		{"an unknown client", other("client_id", "nobody"), 401, "invalid_client"},
		{"no secret", url.Values{"grant_type": {"client_credentials"}, "client_id": {"app"}}, 400, "invalid_request"},
		{"another grant", other("grant_type", "password"), 400, "unsupported_grant_type"},
		{"two secrets", twice, 400, "invalid_request"},
		{"a long secret", other("client_secret", strings.Repeat("x", 1<<20)), 400, "invalid_request"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			res, body := g.ask(t, tt.form)
			if want := fmt.Sprintf(`{"error":%q}`, tt.code); res.StatusCode != tt.status || body != want {
				t.Errorf("status %d, body %s, want %d and %s", res.StatusCode, body, tt.status, want)
			}
		})
	}
}

func TestCredentialsInTheQueryAreNotTaken(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, server.Config{Auth: newAuth(t, server.AuthConfig{})})
	res, err := g.http.Post(g.url(server.TokenPath)+"?"+form("app", planted).Encode(), "application/x-www-form-urlencoded", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close() // read by nobody
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d, want 400", res.StatusCode)
	}
	if res, err = g.http.Get("https://" + g.addr + server.TokenPath); err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close() // read by nobody
	if res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: status %d, want 405", res.StatusCode)
	}
}

func TestAnAddressThatWasRefusedTooOftenHasToWait(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, server.Config{Auth: newAuth(t, server.AuthConfig{FailureBurst: 3, FailureRate: 0.001})})
	token := g.token(t)
	for range 3 {
		if res, _ := g.ask(t, form("app", "wrong")); res.StatusCode != http.StatusUnauthorized {
			t.Fatalf("status %d, want 401", res.StatusCode)
		}
	}
	res, _ := g.ask(t, form("app", planted))
	if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" {
		t.Errorf("status %d, Retry-After %q, want 429 with it", res.StatusCode, res.Header.Get("Retry-After"))
	}
	if err := g.call(with(t.Context(), "Bearer "+token)); err != nil {
		t.Errorf("a call with a good token: %v", err)
	}
}

// Requests whose last byte is held back have all been let in before the first of them is refused.
func TestRequestsThatAreBegunTogetherLearnNoMoreThanOthers(t *testing.T) {
	t.Parallel()
	const burst = 3
	auth := newAuth(t, server.AuthConfig{FailureBurst: burst, FailureRate: 0.001})
	begun, release := make(chan struct{}), make(chan struct{})
	answers := make(chan int)
	for i := range 20 {
		secret := "wrong"
		if i == 0 {
			secret = planted
		}
		text := form("app", secret).Encode()
		go func() {
			body := io.MultiReader(strings.NewReader(text[:5]), &gate{begun: begun, release: release}, strings.NewReader(text[5:]))
			req := httptest.NewRequest(http.MethodPost, server.TokenPath, body)
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			rec := httptest.NewRecorder()
			auth.Handler().ServeHTTP(rec, req)
			answers <- rec.Code
		}()
	}
	for range 20 {
		<-begun
	}
	close(release)
	counts := map[int]int{}
	for range 20 {
		counts[<-answers]++
	}
	if counts[http.StatusUnauthorized] != burst || counts[http.StatusOK] > 1 || counts[http.StatusOK]+counts[http.StatusTooManyRequests] != 20-burst {
		t.Errorf("the answers were %v, want %d of 401 and the rest 429", counts, burst)
	}
}

// gate holds up who reads it, until it is released.
type gate struct {
	begun   chan<- struct{}
	release <-chan struct{}
}

func (g *gate) Read([]byte) (int, error) {
	g.begun <- struct{}{}
	<-g.release
	return 0, io.EOF
}

func TestAnAuthenticatorShowsNoDigest(t *testing.T) {
	t.Parallel()
	auth := newAuth(t, server.AuthConfig{TokenKey: connstring.NewSecret(strings.Repeat("k", 32))})
	digest := sha256.Sum256([]byte(planted))
	for _, text := range []string{
		fmt.Sprintf("%v %+v %#v %x", auth, auth, auth, auth), fmt.Sprintf("%+v", server.Config{Auth: auth}), fmt.Sprintf("%+v", reflect.ValueOf(auth).Elem()),
	} {
		if strings.Contains(text, strings.Trim(fmt.Sprintf("%d", digest[:4]), "[]")) || strings.Contains(text, fmt.Sprintf("%x", digest[:4])) {
			t.Errorf("the digest shows in %s", text)
		}
	}
}

func TestHTTPHandlersOfTheProgramNeedATokenToo(t *testing.T) {
	t.Parallel()
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	g := startGuarded(t, server.Config{Handler: handler, Auth: newAuth(t, server.AuthConfig{})})
	get := func(authorization string) (int, string) {
		req, err := http.NewRequest(http.MethodGet, g.url("/page"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if authorization != "" {
			req.Header.Set("Authorization", authorization)
		}
		res, err := g.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close() // read by nobody
		return res.StatusCode, res.Header.Get("WWW-Authenticate")
	}
	if code, challenge := get(""); code != http.StatusUnauthorized || challenge != "Bearer" {
		t.Errorf("without a token: %d %q, want 401 Bearer", code, challenge)
	}
	if code, challenge := get("Bearer x"); code != http.StatusUnauthorized || challenge != `Bearer error="invalid_token"` {
		t.Errorf("with a bad token: %d %q, want 401 invalid_token", code, challenge)
	}
	if code, _ := get("Bearer " + g.token(t)); code != http.StatusTeapot {
		t.Errorf("with a good token: %d, want 418", code)
	}
}

func TestAProgramsOwnVerifierIsAskedAboutTokensOfOthers(t *testing.T) {
	t.Parallel()
	verify := func(_ context.Context, token string) error {
		if token == "own.jwt.token" {
			return nil
		}
		return errors.New("unknown " + token)
	}
	g := startGuarded(t, server.Config{Auth: newAuth(t, server.AuthConfig{Verify: verify})})
	if err := g.call(with(t.Context(), "Bearer own.jwt.token")); err != nil {
		t.Errorf("a token that it knows: %v", err)
	}
	err := g.call(with(t.Context(), "Bearer other"))
	if status.Code(err) != codes.Unauthenticated || strings.Contains(err.Error(), "unknown") {
		t.Errorf("another token: %v, want Unauthenticated without the verifier's words", err)
	}
	if err := g.call(with(t.Context(), "Bearer "+g.token(t))); err != nil {
		t.Errorf("a token of the server's: %v", err)
	}
}

func TestTokensExpireAndTheirNumberIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tokens := server.NewTokensForTest(time.Minute, 3)
		first := tokens.Issue(time.Now())
		time.Sleep(time.Minute - time.Nanosecond)
		if !tokens.Valid(first, time.Now()) {
			t.Error("a token is not valid before its time is up")
		}
		time.Sleep(time.Nanosecond)
		if tokens.Valid(first, time.Now()) {
			t.Error("a token is valid after its time is up")
		}
		var issued []string
		for range 1000 {
			issued = append(issued, tokens.Issue(time.Now()))
		}
		for i, token := range issued {
			if got, want := tokens.Valid(token, time.Now()), i >= len(issued)-3; got != want {
				t.Errorf("token %d of %d is valid: %v, want %v", i, len(issued), got, want)
			}
		}
		if live, kept := tokens.Size(); live != 3 || kept > 64+4*4 {
			t.Errorf("%d tokens live and room for %d is kept, want 3 and little", live, kept)
		}
	})
}

func TestAuthConfigsThatLetNobodyInAreRefused(t *testing.T) {
	t.Parallel()
	secret := connstring.NewSecret(planted)
	tests := map[string]server.AuthConfig{
		"nobody":         {},
		"no id":          {Clients: []server.AuthClient{{Secret: secret}}},
		"no secret":      {Clients: []server.AuthClient{{ID: "a"}}},
		"twice the same": {Clients: []server.AuthClient{{ID: "a", Secret: secret}, {ID: "a", Secret: secret}}},
	}
	for name, config := range tests {
		if _, err := server.NewAuthenticator(config); err == nil || strings.Contains(err.Error(), planted) {
			t.Errorf("%s: got %v, want an error without the secret", name, err)
		}
	}
}

func TestListsOfClients(t *testing.T) {
	t.Parallel()
	got, err := server.ParseClients("# a list\n\n app:one:two \r\nother:x\n")
	if err != nil || len(got) != 2 || got[0].ID != "app" || got[0].Secret.Reveal() != "one:two" || got[1].ID != "other" {
		t.Errorf("got %v, %v", got, err)
	}
	marked, err := server.ParseClients("\ufeffapp:one\nother:x\n")
	if err != nil || len(marked) != 2 || marked[0].ID != "app" {
		t.Errorf("with a byte order mark: got %v, %v", marked, err)
	}
	for _, text := range []string{"", "# nothing\n", "planted", ":planted", "planted:", "a:b\na:planted"} {
		if _, err := server.ParseClients(text); err == nil || strings.Contains(err.Error(), "planted") {
			t.Errorf("ParseClients(%q) returned %v, want an error that shows nothing", text, err)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v", got, got, got); strings.Contains(text, "one:two") {
		t.Errorf("the secret shows in %s", text)
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package canary_test

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/oauth2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"software.sslmate.com/src/go-pkcs12"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/credential"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
	"github.com/evenkeel-go/evenkeel/internal/devcert"
	"github.com/evenkeel-go/evenkeel/server"
)

// escape writes a secret as a connection string wants it.
func escape(secret string) string { return strings.ReplaceAll(url.QueryEscape(secret), "+", "%20") }

// withUser puts credentials into the connection string of a cluster.
func withUser(c *evenkeeltest.Cluster, secret string) string {
	scheme, rest, _ := strings.Cut(c.ConnectionString(), "://")
	if _, hosts, found := strings.Cut(rest, "@"); found {
		rest = hosts
	}
	return scheme + "://app:" + escape(secret) + "@" + rest
}

// guarded starts a cluster that wants tokens. Its log is written down too.
func guarded(t *testing.T, config evenkeeltest.Config) *evenkeeltest.Cluster {
	t.Helper()
	config.Logger = everything.logger()
	config.Auth = &server.AuthConfig{
		Clients: []server.AuthClient{{ID: "app", Secret: connstring.NewSecret(password)}}, Logger: config.Logger,
		Verify: func(_ context.Context, token string) error {
			if token == ownToken || token == givenToken {
				return nil
			}
			return errors.New("unknown")
		},
	}
	return evenkeeltest.Start(t, config)
}

// calls makes calls of both kinds and writes down their errors.
func calls(conn *evenkeel.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	client := clientspb.NewConnectionServiceClient(conn)
	_, err := client.GetConnectedClients(ctx, &emptypb.Empty{})
	everything.values(err)
	stream, err := client.ObserveConnectedClients(ctx, &emptypb.Empty{})
	if err == nil {
		_, err = stream.Recv()
	}
	everything.values(err)
}

func TestNoSecretShowsInStringsThatDoNotParse(t *testing.T) {
	for _, secret := range []string{password, escape(password), escape(apiKey), apiKey} {
		for _, form := range []string{
			"chronicle://app:%s@", "chronicle://app:%s/@a", "chronicle://%s@a", "chronicle://:%s@a", "chronicle://app:%s@a:99999",
			"chronicle://app:%s@a,,b", "chronicle://app:%s@[::1", "chronicle+srv://app:%s@a:1", "chronicle+srv://app:%s@a,b", "%s",
			"http://app:%s@a", "chronicle://app:%s@a/path", "chronicle://app:%s@a#x", "chronicle://app:%s@a?apiKey=%[1]s",
			"chronicle://app:%s@a?auth=none", "chronicle://a?apiKey=%s&apiKey=%[1]s", "chronicle://a?apikey=%s&auth=none",
			"chronicle://a?password=%s", "chronicle://a?%s=1", "chronicle://a?certificatePassword=%s", "chronicle://a?skipTlsValidation=%s",
			"chronicle://a?loadBalancer=%s", "chronicle://a?disableTls=%s", "chronicle://app:x%%zz%s@a",
		} {
			text := fmt.Sprintf(form, secret)
			cs, err := connstring.Parse(text)
			everything.values(err)
			if err == nil {
				everything.values(cs, *cs, cs.Password, cs.APIKey, cs.CertificatePassword)
			}
			conn, err := evenkeel.New(text, evenkeel.WithTokenSource(oauth2.StaticTokenSource(&oauth2.Token{AccessToken: ownToken})))
			everything.values(err)
			if conn != nil {
				_ = conn.Close() // it returns nil
			}
		}
	}
	good, err := connstring.Parse("chronicle://app:" + escape(password) + "@a/?certificatePath=a.pem&certificatePassword=" + escape(certPassword))
	if err != nil {
		t.Fatal(err)
	}
	key, err := connstring.Parse("chronicle://a/?apiKey=" + escape(apiKey))
	if err != nil {
		t.Fatal(err)
	}
	everything.values(good, *good, key, *key, struct{ Inner *connstring.ConnString }{good}, []connstring.ConnString{*good})
	check(t)
}

func TestNoSecretShowsWhereAllIsWell(t *testing.T) {
	cluster := guarded(t, evenkeeltest.Config{Servers: 2})
	folder := t.TempDir()
	traced := []evenkeel.Option{evenkeel.WithTLS(cluster.TLS()), evenkeel.WithDialOptions(grpc.WithStatsHandler(traces{everything}))}
	options := append([]evenkeel.Option{evenkeel.WithTokenCache(folder)}, traced...)
	watch(t, withUser(cluster, password), options, calls)
	watch(t, cluster.SRVConnectionString(), options, calls) // with the password of the cluster, from the cache
	own := evenkeel.WithTokenSource(oauth2.StaticTokenSource(&oauth2.Token{AccessToken: ownToken}))
	anonymous := "chronicle://" + cluster.Servers[0].Addr()
	watch(t, anonymous, append([]evenkeel.Option{own}, traced...), calls)
	cluster.Servers[0].SetFault(evenkeeltest.Fault{Token: evenkeeltest.TokenOf(givenToken, "3600")})
	watch(t, "chronicle://app:"+escape(password)+"@"+cluster.Servers[0].Addr(), traced, calls, func(*evenkeel.Conn) { _ = cluster.Servers[0].Kill() }, calls)
	open := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1, Logger: everything.logger()})
	watch(t, open.ConnectionString()+"?apiKey="+escape(apiKey), []evenkeel.Option{evenkeel.WithTLS(open.TLS())}, calls)
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) == 0 {
		t.Fatalf("the cache has %d files, %v", len(entries), err)
	}
	for _, entry := range entries { // it holds tokens, but of what they were given for nothing
		content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		everything.values(entry.Name(), string(content))
	}
	check(t)
}

func TestNoSecretShowsWhateverATokenEndpointDoes(t *testing.T) {
	echo := password + " " + escape(password) + " " + base64.StdEncoding.EncodeToString([]byte("app:"+password)) + " " + givenToken
	json := "application/json"
	faults := map[string]evenkeeltest.HTTPFault{
		"refuses and echoes":         {Status: 401, ContentType: json, Body: `{"error":"invalid_client","error_description":"` + echo + `"}`},
		"echoes in the code":         {Status: 400, ContentType: json, Body: `{"error":"` + echo + `"}`},
		"is down and echoes":         {Status: 503, Body: echo},
		"sends a page":               {ContentType: "text/html", Body: "<html>" + echo},
		"sends elsewhere":            {Location: "https://a.test/?secret=" + escape(password)},
		"gives half a token":         {ContentType: json, Body: `{"access_token":"` + givenToken},
		"gives a token of two lines": {ContentType: json, Body: `{"access_token":"` + givenToken + `\n"}`},
		"gives a token for too long": {ContentType: json, Body: `{"access_token":"` + givenToken + `","expires_in":"` + password + `"}`},
		"gives a number":             {ContentType: json, Body: `{"access_token":[1,"` + givenToken + `"]}`},
		"never ends":                 {ContentType: json, Body: echo, Endless: true},
		"breaks off":                 {Abort: true},
		"sends a long header":        {HeaderBytes: 1 << 20, Body: echo},
		"gives no token at all":      {ContentType: json, Body: `{"` + givenToken + `":1}`},
	}
	cluster := guarded(t, evenkeeltest.Config{Servers: 1})
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			cluster.Servers[0].SetFault(evenkeeltest.Fault{Token: fault})
			watch(t, withUser(cluster, password), []evenkeel.Option{evenkeel.WithTLS(cluster.TLS())}, calls)
			check(t)
		})
	}
	cluster.Servers[0].ClearFaults()
	t.Run("does nothing wrong and the password is", func(t *testing.T) {
		watch(t, withUser(cluster, wrongPassword), []evenkeel.Option{evenkeel.WithTLS(cluster.TLS())}, calls)
		watch(t, "chronicle://"+cluster.Servers[0].Addr()+"?apiKey="+escape(apiKey), []evenkeel.Option{evenkeel.WithTLS(cluster.TLS())}, calls)
		check(t)
	})
}

// echoing are servers that write what they were sent into every status.
type echoing struct{ code codes.Code }

func (e *echoing) text(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	sent := strings.Join(append(md.Get("authorization"), md.Get("api-key")...), " ")
	known := "no more"
	if strings.Contains(sent, givenToken) { // the one that was given for it
		known = password
	}
	return status.Errorf(e.code, "you sent %q, %s, %s and %s", sent, url.QueryEscape(sent), base64.StdEncoding.EncodeToString([]byte(sent)), known)
}

func (e *echoing) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, _ any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
			if strings.HasSuffix(info.FullMethod, "CheckCompatibility") {
				return &clientspb.CompatibilityResponse{Incompatibilities: []string{e.text(ctx).Error()}, ServerVersion: e.text(ctx).Error()}, nil
			}
			return nil, e.text(ctx)
		}),
		grpc.ChainStreamInterceptor(func(_ any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
			return e.text(ss.Context())
		}),
	}
}

func TestNoSecretShowsWhenAServerEchoesWhatItWasSent(t *testing.T) {
	for _, code := range []codes.Code{codes.Unauthenticated, codes.PermissionDenied, codes.Internal, codes.Unavailable, codes.Unimplemented} {
		t.Run(code.String(), func(t *testing.T) {
			echo := &echoing{code: code}
			cluster := guarded(t, evenkeeltest.Config{Servers: 1, GRPCOptions: echo.options()})
			open := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1, GRPCOptions: echo.options()})
			for _, skip := range []string{"", "?skipCompatibilityCheck=true"} {
				trust := evenkeel.WithTLS(cluster.TLS())
				cluster.Servers[0].SetFault(evenkeeltest.Fault{Token: evenkeeltest.TokenOf(givenToken, "3600")})
				watch(t, withUser(cluster, password)+skip, []evenkeel.Option{trust}, calls)
				watch(t, withUser(cluster, password)+skip, []evenkeel.Option{trust, evenkeel.WithoutSession()}, calls)
				own := evenkeel.WithTokenSource(oauth2.StaticTokenSource(&oauth2.Token{AccessToken: ownToken}))
				watch(t, "chronicle://"+cluster.Servers[0].Addr()+skip, []evenkeel.Option{trust, own}, calls)
				key := strings.Replace(skip, "?", "&", 1)
				watch(t, open.ConnectionString()+"?apiKey="+escape(apiKey)+key, []evenkeel.Option{evenkeel.WithTLS(open.TLS())}, calls)
				watch(t, open.ConnectionString()+"?apiKey="+escape(apiKey)+key, []evenkeel.Option{evenkeel.WithTLS(open.TLS()), evenkeel.WithoutSession()}, calls)
			}
			check(t)
		})
	}
}

// sourceOf is a program's own source of tokens.
type sourceOf func() (*oauth2.Token, error)

func (s sourceOf) Token() (*oauth2.Token, error) { return s() }

func TestNoSecretShowsWhenCodeOfTheProgramFails(t *testing.T) {
	cluster := guarded(t, evenkeeltest.Config{Servers: 1})
	trust := evenkeel.WithTLS(cluster.TLS())
	anonymous := "chronicle://" + cluster.Servers[0].Addr()
	for name, source := range map[string]sourceOf{
		"a source panics with a secret": func() (*oauth2.Token, error) { panic(ownToken) },
		"a source quotes an answer": func() (*oauth2.Token, error) {
			return nil, &oauth2.RetrieveError{Response: &http.Response{StatusCode: http.StatusBadRequest}, Body: []byte(ownToken), ErrorCode: ownToken, ErrorDescription: ownToken}
		},
		"a token cannot be sent": func() (*oauth2.Token, error) { return &oauth2.Token{AccessToken: ownToken + "\n"}, nil },
		"a type cannot be sent": func() (*oauth2.Token, error) {
			return &oauth2.Token{AccessToken: ownToken, TokenType: ownToken + "\n"}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			watch(t, anonymous, []evenkeel.Option{trust, evenkeel.WithTokenSource(source)}, calls)
			check(t)
		})
	}
	t.Run("callbacks panic", func(t *testing.T) {
		panics := evenkeel.WithOnReady(func(context.Context, grpc.ClientConnInterface) error { panic("of the program") })
		watch(t, withUser(cluster, password), []evenkeel.Option{trust, panics}, calls)
		panicking := evenkeel.WithEvents(func(e evenkeel.Event) {
			everything.values(e)
			panic("of the program")
		})
		conn, err := evenkeel.Dial(t.Context(), withUser(cluster, password), trust, evenkeel.WithLogger(everything.logger()), panicking)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		check(t)
	})
}

// pkcs12File writes a client certificate with a password.
func pkcs12File(t *testing.T) string {
	t.Helper()
	pair, err := devcert.New("app")
	if err != nil {
		t.Fatal(err)
	}
	content, err := pkcs12.Modern.Encode(pair.PrivateKey, pair.Leaf, []*x509.Certificate{}, certPassword)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "client.p12")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNoSecretShowsWhenCertificatesAreRefused(t *testing.T) {
	path := pkcs12File(t)
	cluster := guarded(t, evenkeeltest.Config{Servers: 1, ClientCertificates: true})
	with := func(path, secret string) string {
		return withUser(cluster, password) + "?certificatePath=" + path + "&certificatePassword=" + escape(secret)
	}
	trust := []evenkeel.Option{evenkeel.WithTLS(cluster.TLS())}
	watch(t, with(path, certPassword), trust, calls) // the servers do not know its authority
	watch(t, with(path, wrongPassword), trust)
	watch(t, with("none.p12", certPassword), trust)
	watch(t, with(escape("chronicle://app:"+password+"@a"), certPassword), trust)
	watch(t, withUser(cluster, password), nil, calls) // an unknown root
	for _, fault := range []evenkeeltest.CertificateFault{evenkeeltest.ExpiredCertificate, evenkeeltest.FutureCertificate, evenkeeltest.OtherName, evenkeeltest.UnknownRoot} {
		cluster.Servers[0].SetFault(evenkeeltest.Fault{Certificate: fault})
		watch(t, with(path, certPassword), trust, calls)
	}
	check(t)
}

func TestNoSecretShowsWhenAProxyFails(t *testing.T) {
	basic := base64.StdEncoding.EncodeToString([]byte("user:" + proxyPassword))
	cluster := guarded(t, evenkeeltest.Config{Servers: 2})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	answer := make(chan string, 1)
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			text := <-answer
			answer <- text
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.WriteString(conn, text)
			}
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		group.Wait()
	})
	host := listener.Addr().String()
	for _, proxy := range []string{"http://user:" + escape(proxyPassword) + "@" + host, "user:" + escape(proxyPassword) + "@" + host, "socks5://user:" + escape(proxyPassword) + "@" + host, "http://user:" + proxyPassword + "\x7f@" + host, "https://user:" + escape(proxyPassword) + "@" + host} {
		t.Setenv("HTTPS_PROXY", proxy)
		for _, text := range []string{"HTTP/1.1 407 " + basic + "\r\nProxy-Authenticate: " + proxyPassword + "\r\n\r\n", proxyPassword + basic + "\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n" + proxyPassword} {
			answer <- text
			watch(t, cluster.SRVConnectionString(), []evenkeel.Option{evenkeel.WithTLS(cluster.TLS())}, calls)
			<-answer
		}
	}
	check(t)
}

func TestNoSecretShowsInValuesOfTheRooms(t *testing.T) {
	source, err := credential.NewClientCredentials(credential.ClientCredentialsConfig{ClientID: "app", ClientSecret: connstring.NewSecret(password)})
	if err != nil {
		t.Fatal(err)
	}
	key, err := credential.NewAPIKey(connstring.NewSecret(apiKey), credential.Place{})
	if err != nil {
		t.Fatal(err)
	}
	place := credential.Place{URL: "https://127.0.0.1:1" + credential.TokenPath, Client: credential.NewHTTPClient(credential.HTTPConfig{})}
	bearer, err := source.At(place)
	if err != nil {
		t.Fatal(err)
	}
	defer bearer.Close()
	everything.values(bearer.Ready(t.Context()))
	config := server.AuthConfig{Clients: []server.AuthClient{{ID: "app", Secret: connstring.NewSecret(password)}}}
	auth, err := server.NewAuthenticator(config)
	if err != nil {
		t.Fatal(err)
	}
	everything.values(source, key, bearer, config, auth, server.PeersConfig{Tokens: source},
		credential.ClientCredentialsConfig{ClientID: "app", ClientSecret: connstring.NewSecret(password)})
	for _, text := range []string{"app:" + password + "\nnonsense" + password, password, ":" + password, "app:\n" + password} {
		_, err := server.ParseClients(text)
		everything.values(err)
	}
	_, err = credential.NewAPIKey(connstring.NewSecret(apiKey+"\n"), credential.Place{})
	everything.values(err)
	check(t)
}

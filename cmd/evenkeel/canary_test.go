// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"crypto/x509"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
	"github.com/evenkeel-go/evenkeel/internal/devcert"
	"github.com/evenkeel-go/evenkeel/internal/secretform"
	"github.com/evenkeel-go/evenkeel/server"
)

// The secrets of the runs below, each with a word that would be found alone, and characters that encodings change.
const (
	canaryPassword = "Canary1Password/+@: %é"
	canaryKey      = "Canary2ApiKey/+@:%"
	canaryFile     = "Canary3CertPassword/+@"
	canaryProxy    = "Canary4ProxyPassword/+@"
	canaryToken    = "Canary5.Token/+="
)

// noCanary looks for the secrets in what a run has written.
func noCanary(t *testing.T, what string, got called) {
	t.Helper()
	words := []string{"Canary1Password", "Canary2ApiKey", "Canary3CertPassword", "Canary4ProxyPassword", "Canary5.Token"}
	for _, text := range []string{got.stdout, got.stderr} {
		if secretform.Contains(text, append(words, canaryPassword, canaryKey, canaryFile, canaryProxy, canaryToken)...) {
			t.Errorf("%s: a secret shows in\n%s", what, text)
		}
	}
	if got.stdout+got.stderr == "" {
		t.Errorf("%s: nothing was written: there is nothing to look at", what)
	}
}

// escaped writes a secret as a connection string wants it.
func escaped(secret string) string { return strings.ReplaceAll(url.QueryEscape(secret), "+", "%20") }

// canaryClients is a list of clients in a file.
func canaryClients(t *testing.T) string {
	t.Helper()
	return write(t, t.TempDir(), "clients.txt", "app:"+canaryPassword+"\nother:"+canaryToken+"\n")
}

// canaryCertificate is a client certificate in a file with a password.
func canaryCertificate(t *testing.T) string {
	t.Helper()
	pair, err := devcert.New("app")
	if err != nil {
		t.Fatal(err)
	}
	content, err := pkcs12.Modern.Encode(pair.PrivateKey, pair.Leaf, []*x509.Certificate{}, canaryFile)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "client.p12")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// canaryStrings are connection strings with secrets, right and wrong, for the servers at addrs.
func canaryStrings(t *testing.T, addrs string) map[string]string {
	t.Helper()
	file := canaryCertificate(t)
	skip := addrs + "/?skipTlsValidation=true"
	return map[string]string{
		"the right password":         "chronicle://app:" + escaped(canaryPassword) + "@" + skip,
		"a wrong password":           "chronicle://app:" + escaped(canaryToken) + "@" + skip,
		"an API key":                 "chronicle://" + skip + "&apiKey=" + escaped(canaryKey),
		"no trust":                   "chronicle://app:" + escaped(canaryPassword) + "@" + addrs,
		"a client certificate":       "chronicle://" + skip + "&certificatePath=" + file + "&certificatePassword=" + escaped(canaryFile),
		"a wrong one":                "chronicle://" + skip + "&certificatePath=" + file + "&certificatePassword=" + escaped(canaryToken),
		"a password that is raw":     "chronicle://app:" + canaryPassword + "@" + skip,
		"two ways to prove oneself":  "chronicle://app:" + escaped(canaryPassword) + "@" + skip + "&apiKey=" + escaped(canaryKey),
		"an option that is none":     "chronicle://" + skip + "&password=" + escaped(canaryPassword),
		"a path that is a string":    "chronicle://" + skip + "&certificatePath=" + escaped("chronicle://app:"+canaryPassword+"@a"),
		"a name that is not there":   "chronicle+srv://app:" + escaped(canaryPassword) + "@none.invalid/?srvNameServer=127.0.0.1:1",
		"a server that is not there": "chronicle://app:" + escaped(canaryPassword) + "@127.0.0.1:1",
	}
}

func TestNoSecretIsWrittenByAnySubcommand(t *testing.T) {
	t.Parallel()
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2, Auth: &server.AuthConfig{
		Clients: []server.AuthClient{{ID: "app", Secret: connstring.NewSecret(canaryPassword)}},
	}})
	_, addrs, _ := strings.Cut(cluster.ConnectionString(), "@")
	texts := canaryStrings(t, addrs)
	faults := map[string]evenkeeltest.HTTPFault{
		"and all is well":                   {},
		"and the token endpoint echoes all": {Status: 401, ContentType: "application/json", Body: `{"error":"` + canaryPassword + `","error_description":"` + canaryPassword + `"}`},
		"and a token that nobody knows":     evenkeeltest.TokenOf(canaryToken, "60"),
	}
	for fault, answer := range faults {
		for _, s := range cluster.Servers {
			s.SetFault(evenkeeltest.Fault{Token: answer})
		}
		var runs sync.WaitGroup
		for name, text := range texts {
			for _, args := range [][]string{{"resolve"}, {"probe"}, {"connect", "--for", "300ms", "--jitter", "0"}} {
				for _, args := range [][]string{args, append(args[:len(args):len(args)], "--json")} {
					runs.Go(func() {
						noCanary(t, strings.Join(args, " ")+" with "+name+" "+fault, call(t, []string{variable + "=" + text}, "", args...))
					})
				}
			}
		}
		runs.Wait()
	}
}

func TestNoSecretIsWrittenByServe(t *testing.T) {
	t.Parallel()
	clients := canaryClients(t)
	first := begin(t, "serve", "--listen", "127.0.0.1:0", "--auth", "token", "--clients", clients, "--json")
	line := first.line()
	_, rest, _ := strings.Cut(line, `"listening":"`)
	addr, _, _ := strings.Cut(rest, `"`)
	// The second asks the first as its peer, with wrong credentials.
	second := begin(t, "serve", "--listen", "127.0.0.1:0", "--auth", "token", "--clients", clients,
		"--peers", "chronicle://app:"+escaped(canaryToken)+"@"+addr+"/?skipTlsValidation=true")
	lines := second.line() + "\n" + second.line()
	_, at, _ := strings.Cut(lines, "connect with chronicle://")
	for _, secret := range []string{canaryPassword, canaryToken} {
		noCanary(t, "connect", call(t, nil, "", "connect", "--for", "1s", "--jitter", "0", "chronicle://app:"+escaped(secret)+"@"+strings.TrimSpace(at)))
	}
	for i, r := range []*running{first, second} {
		last, status := r.end()
		if status != exitDone {
			t.Errorf("status %d, want 0", status)
		}
		noCanary(t, "serve", called{stdout: []string{line, lines}[i] + last, stderr: r.stderr.String()})
	}
	for name, args := range map[string][]string{
		"a list that is none":     {"serve", "--auth", "token", "--clients", write(t, t.TempDir(), "c", canaryPassword[:15]+"\n"+canaryPassword)},
		"a list in the wrong way": {"serve", "--clients", "app:" + canaryPassword},
		"a list as a path":        {"serve", "--auth", "token", "--clients", "app:" + canaryPassword},
		"peers that do not parse": {"serve", "--peers", "chronicle://app:" + canaryPassword + "@a"},
		"peers with an API key":   {"serve", "--peers", "chronicle://a/?apiKey=" + escaped(canaryKey)},
		"peers with a bad file":   {"serve", "--peers", "chronicle://a/?certificatePath=" + canaryCertificate(t) + "&certificatePassword=" + escaped(canaryToken)},
		"a certificate":           {"serve", "--cert", "chronicle://app:" + canaryPassword + "@a", "--key", "chronicle://app:" + canaryPassword + "@a"},
		"an authority":            {"serve", "--client-ca", "chronicle://app:" + canaryPassword + "@a"},
	} {
		noCanary(t, name, call(t, nil, "", args...))
	}
	noCanary(t, "a list in the environment", call(t, []string{clientsVariable + "=" + canaryPassword + "\n" + canaryToken}, "", "serve", "--auth", "token"))
}

// The variable of the proxy is the process's: nothing runs beside this.
func TestNoSecretOfAProxyIsWritten(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if request, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				echo := request.Header.Get("Proxy-Authorization")
				_, _ = io.WriteString(conn, "HTTP/1.1 407 "+echo+"\r\nProxy-Authenticate: "+echo+" "+base64.StdEncoding.EncodeToString([]byte(echo))+"\r\n\r\n"+echo)
			}
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		group.Wait()
	})
	for _, scheme := range []string{"http", "socks5"} {
		t.Setenv("HTTPS_PROXY", scheme+"://user:"+escaped(canaryProxy)+"@"+listener.Addr().String())
		t.Setenv("NO_PROXY", "")
		for _, args := range [][]string{{"probe"}, {"connect", "--for", "500ms", "--jitter", "0"}} {
			got := call(t, nil, "", append(args, "chronicle://app:"+escaped(canaryPassword)+"@node1.invalid,node2.invalid")...)
			noCanary(t, args[0]+" through a proxy", got)
			if !strings.Contains(got.stderr, "HTTPS_PROXY") || !strings.Contains(got.stderr, "--no-proxy") || got.status != exitFailed {
				t.Errorf("%s: status %d and %q, want a word on the proxy", args[0], got.status, got.stderr)
			}
		}
	}
}

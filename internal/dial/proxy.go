// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package dial

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/certerr"
)

// maxProxyAnswer is how long the answer of a proxy may be.
const maxProxyAnswer = 16 << 10

// maxInformational is how many informational answers may come before the one that counts.
const maxInformational = 8

// Proxy decides which endpoints are reached through which proxy. A nil one decides for none. ProxyFromEnvironment makes
// one. It is immutable.
type Proxy struct {
	pick func(*url.URL) (*url.URL, error)
	bad  error       // why the proxy that is named cannot be used; nil when it can
	tls  *tls.Config // for proxies that speak TLS
}

// ProxyFromEnvironment returns what HTTPS_PROXY and NO_PROXY (or their lower-case forms) say now; nil when they name no
// proxy. The rules are those of net/http: localhost and loopback addresses are never proxied. The decision is made by the
// name of an endpoint.
//
// A proxy whose URL begins with https:// is spoken to over TLS, and always verified, against the roots in config, or the
// system's. Nothing else of config is used: it is for servers.
func ProxyFromEnvironment(config *tls.Config) *Proxy {
	return newProxy(httpproxy.FromEnvironment(), config)
}

func newProxy(settings *httpproxy.Config, config *tls.Config) *Proxy {
	if settings.HTTPSProxy == "" {
		return nil
	}
	p := &Proxy{tls: &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}}
	if config != nil {
		p.tls.RootCAs = config.RootCAs
	}
	if p.bad = checkProxy(settings.HTTPSProxy); p.bad != nil {
		told := *settings
		told.HTTPSProxy = "http://unreadable.invalid" // so that those which need no proxy are still told apart
		settings = &told
	}
	p.pick = settings.ProxyFunc()
	return p
}

var errProxyURL = errors.New("the proxy in HTTPS_PROXY cannot be read: give http://host:port, and percent-encode / # ? and " +
	"blanks in credentials before the host")

// checkProxy says what is wrong with the URL of a proxy, and nothing of what is in it. A password with a slash or the like
// in it ends the host where it stands, and its beginning would be looked up as a port or a name, or shown.
func checkProxy(text string) error {
	if scheme, _, ok := strings.Cut(text, "://"); !ok || strings.ContainsAny(scheme, "@/") {
		text = "http://" + text // as net/http has it
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || strings.ContainsAny(u.Hostname(), " %\\"):
		return errProxyURL
	case u.Path != "" && u.Path != "/", strings.ContainsAny(text, "?#"):
		return errProxyURL
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("the proxy in HTTPS_PROXY is neither http:// nor https://, which are all that can be used")
	}
	if _, err := portOf(u); err != nil {
		return errors.New("the port of the proxy in HTTPS_PROXY is no port")
	}
	return nil
}

// choose returns the proxy for an endpoint; nil when there is none.
func (p *Proxy) choose(endpoint discover.Endpoint) *url.URL {
	if p == nil {
		return nil
	}
	chosen, err := p.pick(&url.URL{Scheme: "https", Host: named(endpoint)})
	if err != nil {
		return nil // it cannot be: HTTPS_PROXY is read and has no such rule
	}
	return chosen
}

// named is how a proxy is told of an endpoint: by its host and port, without the zone, which is this machine's affair.
func named(endpoint discover.Endpoint) string {
	endpoint.ServerName = ""
	return endpoint.Authority()
}

func portOf(proxy *url.URL) (uint16, error) {
	switch {
	case proxy.Port() != "":
		port, err := strconv.ParseUint(proxy.Port(), 10, 16)
		if err == nil && port == 0 {
			err = strconv.ErrRange
		}
		return uint16(port), err
	case proxy.Scheme == "https":
		return 443, nil
	default:
		return 80, nil
	}
}

// ProxyError says why an endpoint was not reached through its proxy.
type ProxyError struct {
	// Proxy is the proxy, "host:port"; empty when it could not be read.
	Proxy string
	// Status is the status of its answer; 0 when there was none.
	Status int
	// Err is the cause; nil when Status says it all.
	Err error
}

// Error names the proxy and the cause. It holds no credentials, and nothing that the proxy sent but the status.
func (e *ProxyError) Error() string {
	text := "proxy"
	if e.Proxy != "" {
		text += " " + e.Proxy
	}
	if e.Err != nil {
		return text + ": " + e.Err.Error()
	}
	text += ": status " + strconv.Itoa(e.Status)
	if words := http.StatusText(e.Status); words != "" {
		text += " " + words
	}
	return text
}

// Unwrap returns the cause.
func (e *ProxyError) Unwrap() error { return e.Err }

// tunnel connects to the endpoint through the proxy.
func (d Dialer) tunnel(ctx context.Context, proxy *url.URL, endpoint discover.Endpoint) (net.Conn, error) {
	if d.Proxy.bad != nil {
		return nil, &ProxyError{Err: d.Proxy.bad}
	}
	port, err := portOf(proxy)
	if err != nil {
		return nil, &ProxyError{Err: errors.New("no port")} // checked before
	}
	at := discover.Endpoint{Host: proxy.Hostname(), Port: port}
	conn, err := d.direct(ctx, at)
	if err != nil {
		return nil, &ProxyError{Proxy: at.Addr(), Err: err}
	}
	if proxy.Scheme == "https" {
		config := d.Proxy.tls.Clone()
		config.ServerName = at.VerifyName()
		secured := tls.Client(conn, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = conn.Close() // the handshake's error is the one that matters
			return nil, &ProxyError{Proxy: at.Addr(), Err: certerr.Explain(err, config.ServerName)}
		}
		conn = secured
	}
	status, err := connect(ctx, conn, proxy.User, named(endpoint))
	if err != nil || status/100 != 2 {
		_ = conn.Close()
		return nil, &ProxyError{Proxy: at.Addr(), Status: status, Err: err}
	}
	return conn, nil
}

// connect asks a proxy for a way to target and returns the status of its answer. It takes no byte from the connection
// beyond that answer.
func connect(ctx context.Context, conn net.Conn, user *url.Userinfo, target string) (status int, err error) {
	cut := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // an error would end the exchange as well
	defer func() {
		if !cut() { // it is ending, or has ended, the connection's use
			err = context.Cause(ctx)
		}
	}()
	request := "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\nUser-Agent: evenkeel\r\n"
	if user != nil {
		password, _ := user.Password()
		request += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)) + "\r\n"
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		return 0, fmt.Errorf("ask for a connection to %s: %w", target, err)
	}
	// Informational answers may come before the one that counts (RFC 9110 section 15.2).
	for range maxInformational {
		if status, err = readStatus(conn); err != nil || status/100 != 1 || status == http.StatusSwitchingProtocols {
			return status, err
		}
	}
	return 0, errNoAnswer
}

// readStatus reads one answer, and returns its status.
func readStatus(r io.Reader) (int, error) {
	header, err := readHeader(r)
	if err != nil {
		return 0, err
	}
	// Of its errors none is passed on: they quote the answer.
	answer, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(header)), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return 0, errNoHTTP
	}
	_ = answer.Body.Close() // there is none
	return answer.StatusCode, nil
}

var (
	errNoHTTP   = errors.New("the answer is not HTTP")
	errNoAnswer = errors.New("it says over and over that an answer will come")
	errTooLong  = errors.New("the header of the answer is longer than 16 KiB")
)

// readHeader reads byte by byte up to the empty line: what comes after it is the server's.
func readHeader(r io.Reader) ([]byte, error) {
	header := make([]byte, 0, 512)
	var one [1]byte
	for !bytes.HasSuffix(header, []byte("\r\n\r\n")) && !bytes.HasSuffix(header, []byte("\n\n")) {
		if len(header) == maxProxyAnswer {
			return nil, errTooLong
		}
		if _, err := io.ReadFull(r, one[:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the connection was closed instead of an answer")
			}
			return nil, err
		}
		header = append(header, one[0])
	}
	return header, nil
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package credential

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"
)

// TokenPath is where Chronicle servers give tokens.
const TokenPath = "/connect/token"

// maxHeaderBytes bounds the header of an answer.
const maxHeaderBytes = 16 << 10

// Place is where tokens are asked for, and how it is reached.
type Place struct {
	// URL is the token endpoint. It must be https unless Plaintext is set, and hold neither a user nor a query.
	URL string
	// Client makes the request: its Transport decides on TLS, addresses and proxies, and is to bound the header of an
	// answer (NewHTTPClient makes one that does). Its Timeout, Jar and CheckRedirect are not used: there is a limit of 5
	// s, and no redirect is followed. It is not closed.
	Client *http.Client
	// Plaintext lets secrets and tokens go over connections without TLS. It is meant for tests and for meshes that encrypt
	// by themselves.
	Plaintext bool
}

// check says what cannot be meant. It does not quote the URL.
func (p Place) check() error {
	u, err := url.Parse(p.URL)
	switch {
	case err != nil || u.Host == "":
		return errors.New("credential: the URL of the token endpoint cannot be read")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("credential: the URL of the token endpoint must have no user, query or fragment")
	case u.Scheme != "https" && (u.Scheme != "http" || !p.Plaintext):
		return errors.New("credential: the URL of the token endpoint must be https")
	case p.Client == nil:
		return errors.New("credential: no http.Client to reach the token endpoint")
	}
	return nil
}

// name is the place for a person to read. The URL has been checked.
func (p Place) name() string {
	u, err := url.Parse(p.URL)
	if err != nil {
		return ""
	}
	return u.Host + u.EscapedPath()
}

// host is the name of the server, without the port. The URL has been checked.
func (p Place) host() string {
	u, err := url.Parse(p.URL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// HTTPConfig says how NewHTTPClient reaches a server.
type HTTPConfig struct {
	// TLS holds roots, client certificates and the like; nil means the system's roots. It is copied.
	TLS *tls.Config
	// Dial opens the TCP connection; nil means that of package net. It gets "tcp" and the host and port of the URL.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Plaintext speaks HTTP/2 with prior knowledge instead of TLS, as servers without TLS do.
	Plaintext bool
}

// NewHTTPClient returns a client for asking now and then: it keeps no connection, follows no redirect, bounds headers to
// 16 KiB and uses no proxy. There is nothing to close.
func NewHTTPClient(config HTTPConfig) *http.Client {
	t := &http.Transport{
		DialContext:            config.Dial,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaderBytes,
		TLSHandshakeTimeout:    fetchLimit,
		Protocols:              new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerConnection: maxAnswer, MaxReceiveBufferPerStream: maxAnswer,
		},
	}
	if config.TLS != nil {
		t.TLSClientConfig = config.TLS.Clone()
	}
	t.Protocols.SetHTTP1(!config.Plaintext)
	t.Protocols.SetHTTP2(!config.Plaintext)
	t.Protocols.SetUnencryptedHTTP2(config.Plaintext)
	return &http.Client{
		Transport:     t,
		Timeout:       2 * fetchLimit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// fetchLimit is how long a request for a token may take.
const fetchLimit = 5 * time.Second

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/internal/devcert"
	"github.com/evenkeel-go/evenkeel/server"
)

// issueFor writes a certificate as it is asked for.
func (c *certificates) issueFor(t *testing.T, r devcert.Request) {
	t.Helper()
	pair, err := c.ca.IssueFor(r)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := devcert.Encode(pair)
	if err != nil {
		t.Fatal(err)
	}
	c.write(t, cert, key)
}

// TestTheLogSaysOfACertificateThatClientsWillRefuseIt, when the server starts and when the certificate has changed.
func TestTheLogSaysOfACertificateThatClientsWillRefuseIt(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	names := []string{"localhost"}
	files, logged := newCertificates(t), &syncBuffer{}
	files.issueFor(t, devcert.Request{Names: names, NotBefore: time.Now().Add(day)})
	f := serveTCP(t, server.Config{CertFile: files.cert, KeyFile: files.key, Logger: logged.logger()})
	if got, want := logged.String(), "certificate is not valid before 2"; !strings.Contains(got, want) {
		t.Errorf("at the start: got %q, want %q in it", got, want)
	}
	shake := func() {
		conn, err := tls.Dial("tcp", f.addr, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // nothing is sent
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close() // it was only to shake hands
	}
	for _, changed := range []struct {
		request devcert.Request
		want    string
	}{
		{devcert.Request{Names: names, NotBefore: time.Now().Add(-2 * day), NotAfter: time.Now().Add(-day)}, "certificate expired on 2"},
		{devcert.Request{Names: names, Client: true}, "serverAuth is not among them"},
		{devcert.Request{Names: names}, "serving with the changed certificate"},
	} {
		before := len(logged.String())
		files.issueFor(t, changed.request)
		eventually(t, changed.want, func() bool {
			shake()
			return strings.Contains(logged.String()[before:], changed.want)
		})
	}
	if got := logged.String(); strings.Count(got, "clients will refuse this server") != 3 {
		t.Errorf("got %q, want three warnings, and none of the good one", got)
	}
}

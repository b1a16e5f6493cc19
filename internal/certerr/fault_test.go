// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package certerr_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/internal/certerr"
	"github.com/evenkeel-go/evenkeel/internal/devcert"
)

// withCNOnly is a certificate as openssl makes it with -subj alone: signed by itself, and without a subjectAltName.
func withCNOnly(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// TestWhatIsWrongWithAServersCertificate: clients find out the same that can be seen beforehand, where it can.
func TestWhatIsWrongWithAServersCertificate(t *testing.T) {
	t.Parallel()
	ca, day := authority(t), 24*time.Hour
	names := []string{"node1.test"}
	nameless := withCNOnly(t, "node1.test")
	trusting := ca.Pool()
	trusting.AddCert(nameless.Leaf)
	tests := []struct {
		name  string
		pair  tls.Certificate
		want  certerr.Fault
		doubt string // in the only one; empty for none
	}{
		{"good", issue(t, ca, devcert.Request{Names: names}), certerr.None, ""},
		{"expired", issue(t, ca, devcert.Request{Names: names, NotBefore: time.Now().Add(-2 * day), NotAfter: time.Now().Add(-day)}), certerr.Expired, "expired on 2"},
		{"not yet valid", issue(t, ca, devcert.Request{Names: names, NotBefore: time.Now().Add(day)}), certerr.Early, "not valid before 2"},
		{"for clients only", issue(t, ca, devcert.Request{Names: names, Client: true}), certerr.Usage, "serverAuth"},
		{"a CN only", nameless, certerr.Nameless, `names no host in a subjectAltName, and the CN "node1.test" does not count`},
		{"another name", issue(t, ca, devcert.Request{Names: []string{"other.test"}}), certerr.Name, ""},
		{"unknown root", issue(t, authority(t), devcert.Request{Names: names}), certerr.Authority, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var raw error
			if tt.want != certerr.None {
				raw = shake(t, &tls.Config{RootCAs: trusting, ServerName: "node1.test"}, &tls.Config{Certificates: []tls.Certificate{tt.pair}})
			}
			if got := certerr.FaultOf(raw); got != tt.want {
				t.Errorf("fault %d, want %d: %v", got, tt.want, raw)
			}
			doubts := certerr.Doubts(tt.pair.Leaf, time.Now())
			switch {
			case tt.doubt == "" && len(doubts) > 0:
				t.Errorf("doubts %q, want none", doubts)
			case tt.doubt != "" && (len(doubts) != 1 || !strings.Contains(doubts[0], tt.doubt)):
				t.Errorf("doubts %q, want one with %q in it", doubts, tt.doubt)
			case tt.want == certerr.Nameless && !strings.HasPrefix(certerr.Explain(raw, "node1.test").Error(), doubts[0]):
				t.Errorf("the client says %q, want it to begin with %q", certerr.Explain(raw, "node1.test"), doubts[0])
			}
		})
	}
}

// TestAnErrorOfAnotherKindIsNoFault of a certificate.
func TestAnErrorOfAnotherKindIsNoFault(t *testing.T) {
	t.Parallel()
	if got := certerr.FaultOf(io.ErrUnexpectedEOF); got != certerr.None {
		t.Errorf("fault %d, want none", got)
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package certfile

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"

	"software.sslmate.com/src/go-pkcs12"
)

// fileFault is what is wrong with a file. Its text follows the name of the file, and is all that is said of it: the errors
// of the parsers are not passed on.
type fileFault struct {
	text string
	// orPKCS12 is what else may help where PKCS#12 is read too.
	orPKCS12 string
	ofKey    bool // it is about the private key
}

func (e *fileFault) Error() string { return e.text + e.orPKCS12 }

// without PKCS#12 nothing is said of it.
func (e *fileFault) without() *fileFault { return &fileFault{text: e.text, ofKey: e.ofKey} }

var (
	errNoCertificate = &fileFault{
		text: "holds no certificate: give one in PEM form (-----BEGIN CERTIFICATE-----)", orPKCS12: ", or a PKCS#12 file",
	}
	errBadCert = &fileFault{text: "holds a damaged certificate: give the file as its authority made it"}
	errNoKey   = &fileFault{text: "holds no private key: give one in PEM form (-----BEGIN PRIVATE KEY-----)", ofKey: true}
	errBadKey  = &fileFault{text: "holds a damaged private key: give the file as it was made", ofKey: true}
	errCrypted = &fileFault{
		text:     "holds an encrypted private key, which is not read from PEM: decrypt it (openssl pkey)",
		orPKCS12: ", or give a PKCS#12 file and its password", ofKey: true,
	}
	errMismatch = &fileFault{text: "holds a private key that does not belong to the first certificate", ofKey: true}
	errPassword = &fileFault{text: "does not open with the password that was given"}
	errNoPass   = &fileFault{text: "needs a password, and none was given"}
	errRounds   = &fileFault{
		text: "is a PKCS#12 file whose keys take millions of rounds (iterations) to derive: export it with fewer",
	}
	errNeither = &fileFault{text: "is neither in PEM form nor a PKCS#12 file with one certificate and its private key"}
	errNotPEM  = &fileFault{
		text: "is not in PEM form (-----BEGIN CERTIFICATE-----), and no other is read here: make it of a PKCS#12 file with " +
			"openssl pkcs12 -nodes",
	}
)

// isKeyFault says that an error is about the private key.
func isKeyFault(err error) bool {
	f, ok := errors.AsType[*fileFault](err)
	return ok && f.ofKey
}

// parse reads a certificate and its key. The key is nil where it stands in the same file. Only PEM is read where that is all
// there may be: also where there is a file for the key, which PKCS#12 would leave unread.
func (c Config) parse(cert, key []byte) (*tls.Certificate, error) {
	pemOnly := c.PEM || c.Key != ""
	pair, err := parse(cert, key, c.password(), pemOnly)
	if fault, ok := errors.AsType[*fileFault](err); ok && pemOnly {
		return nil, fault.without()
	}
	return pair, err
}

func (c Config) password() string {
	if c.Password == nil {
		return ""
	}
	return c.Password.Reveal()
}

func parse(cert, key []byte, password string, pemOnly bool) (*tls.Certificate, error) {
	switch isPEM := bytes.Contains(cert, []byte("-----BEGIN ")); {
	case !isPEM && len(bytes.TrimSpace(cert)) == 0:
		return nil, errNoCertificate
	case !isPEM && pemOnly:
		return nil, errNotPEM
	case !isPEM:
		return parsePKCS12(cert, password)
	}
	if key == nil {
		key = cert
	}
	return parsePEM(cert, key)
}

func parsePEM(cert, key []byte) (*tls.Certificate, error) {
	pair := &tls.Certificate{}
	if damaged(cert, isCertificate) {
		return nil, errBadCert
	}
	if damaged(key, isKey) {
		return nil, errBadKey
	}
	for block, rest := pem.Decode(cert); block != nil; block, rest = pem.Decode(rest) {
		if !isCertificate(block.Type) {
			continue
		}
		parsed, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errBadCert
		}
		if pair.Leaf == nil {
			pair.Leaf = parsed
		}
		pair.Certificate = append(pair.Certificate, block.Bytes)
	}
	if pair.Leaf == nil {
		return nil, errNoCertificate
	}
	signer, err := keyIn(key)
	if err != nil {
		return nil, err
	}
	return complete(pair, signer)
}

func isCertificate(kind string) bool { return kind == "CERTIFICATE" }

func isKey(kind string) bool { return strings.HasSuffix(kind, "PRIVATE KEY") }

// damaged says whether blocks of a kind begin that cannot be read: package pem goes on with the next one and says nothing.
func damaged(content []byte, wanted func(kind string) bool) bool {
	begun := 0
	for line := range bytes.Lines(content) {
		kind, begins := bytes.CutPrefix(bytes.TrimSpace(line), []byte("-----BEGIN "))
		if kind, ends := bytes.CutSuffix(kind, []byte("-----")); begins && ends && wanted(string(kind)) {
			begun++
		}
	}
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if wanted(block.Type) {
			begun--
		}
	}
	return begun > 0
}

// keyIn returns the first private key of a PEM file.
func keyIn(content []byte) (crypto.Signer, error) {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if !isKey(block.Type) {
			continue
		}
		if strings.HasPrefix(block.Type, "ENCRYPTED") || block.Headers["DEK-Info"] != "" {
			return nil, errCrypted
		}
		if signer := parseKey(block.Bytes); signer != nil {
			return signer, nil
		}
		return nil, errBadKey
	}
	return nil, errNoKey
}

// parseKey reads a private key in any of the forms that are about; nil when it is none.
func parseKey(der []byte) crypto.Signer {
	if key, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		signer, _ := key.(crypto.Signer)
		return signer
	}
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key
	}
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key
	}
	return nil
}

func parsePKCS12(content []byte, password string) (*tls.Certificate, error) {
	if rounds(content) > maxRounds {
		return nil, errRounds
	}
	key, leaf, chain, err := pkcs12.DecodeChain(content, password)
	switch {
	case errors.Is(err, pkcs12.ErrIncorrectPassword) && password == "":
		return nil, errNoPass
	case errors.Is(err, pkcs12.ErrIncorrectPassword), errors.Is(err, pkcs12.ErrDecryption):
		return nil, errPassword
	case err != nil:
		return nil, errNeither
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errBadKey
	}
	pair := &tls.Certificate{Certificate: [][]byte{leaf.Raw}, Leaf: leaf}
	for _, c := range chain {
		pair.Certificate = append(pair.Certificate, c.Raw)
	}
	return complete(pair, signer)
}

// complete puts the key to its certificate.
func complete(pair *tls.Certificate, key crypto.Signer) (*tls.Certificate, error) {
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(pair.Leaf.PublicKey) {
		return nil, errMismatch
	}
	pair.PrivateKey = key
	return pair, nil
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxPEM bounds what is read as certificates or as a key.
const maxPEM = 4 << 20

// readKeyPair reads a certificate and its key. Whatever is wrong, the error says which file and what to give instead;
// it holds nothing of the key.
func readKeyPair(certPath, keyPath string) (*tls.Certificate, error) {
	certPEM, err := readPEM("--cert", certPath)
	if err != nil {
		return nil, err
	}
	if _, err := certificatesIn("--cert", certPath, certPEM); err != nil {
		return nil, err
	}
	keyPEM, err := readPEM("--key", keyPath)
	if err != nil {
		return nil, err
	}
	if err := checkKey(keyPath, keyPEM); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		// Both are readable, so it is the pair that is wrong.
		return nil, fmt.Errorf("the --key file %s does not belong to the first certificate in %s: give the key that it was made for",
			keyPath, certPath)
	}
	return &pair, nil
}

func readPEM(flag, path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the user says which file
	if err != nil && strings.Contains(path, "@") {
		// It may be a connection string that went astray, and that holds a password.
		return nil, fmt.Errorf("the %s file cannot be read: %w; give the path of a file in PEM form", flag, pathless(err))
	}
	if err != nil {
		return nil, fmt.Errorf("the %s file %s cannot be read: %w", flag, path, pathless(err))
	}
	defer func() { _ = f.Close() }() // only read
	content, err := io.ReadAll(io.LimitReader(f, maxPEM))
	if err != nil {
		return nil, fmt.Errorf("the %s file %s cannot be read: %w", flag, path, pathless(err))
	}
	return content, nil
}

// certificatesIn returns the certificates of a PEM file, at least one, and is content only when all are readable.
func certificatesIn(flag, path string, content []byte) ([]*x509.Certificate, error) {
	var found []*x509.Certificate
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d in the %s file %s is damaged: give the file as its authority made it",
				len(found)+1, flag, path)
		}
		found = append(found, certificate)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the %s file %s holds no certificate: give one in PEM form (-----BEGIN CERTIFICATE-----)", flag, path)
	}
	return found, nil
}

// checkKey says whether there is a readable key, without a word of what is in it.
func checkKey(path string, content []byte) error {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			continue
		}
		if strings.HasPrefix(block.Type, "ENCRYPTED") || block.Headers["DEK-Info"] != "" {
			return fmt.Errorf("the --key file %s is encrypted: decrypt it first, with openssl pkey for one", path)
		}
		if !parsesAsKey(block.Bytes) {
			return fmt.Errorf("the private key in the --key file %s is damaged: give the file as it was made", path)
		}
		return nil
	}
	return fmt.Errorf("the --key file %s holds no private key: give one in PEM form (-----BEGIN PRIVATE KEY-----)", path)
}

func parsesAsKey(der []byte) bool {
	if _, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		return true
	}
	if _, err := x509.ParseECPrivateKey(der); err == nil {
		return true
	}
	_, err := x509.ParsePKCS1PrivateKey(der)
	return err == nil
}

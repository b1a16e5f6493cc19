// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"crypto/tls"
	"fmt"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/credential"
	"github.com/evenkeel-go/evenkeel/server"
)

// peersConfig says who the other servers are.
func (s *serving) peersConfig() (server.PeersConfig, error) {
	var config server.PeersConfig
	switch {
	case s.peers == "" && s.peersCA == "":
		return config, nil
	case s.peers == "":
		return config, usage("--peers-ca needs --peers")
	case s.peersCA != "" && s.plaintext:
		return config, usage("--peers-ca and --plaintext exclude each other")
	}
	cs, err := connstring.Parse(s.peers)
	if err != nil {
		return config, &usageError{err: fmt.Errorf("--peers cannot be read: %s", sentence(err))}
	}
	if cs.AuthMode() == connstring.AuthModeAPIKey {
		return config, usage("--peers takes no API key: servers ask each other with user:password@ or without anything")
	}
	if cs.CertificatePath != "" && s.plaintext {
		return config, usage("certificatePath in --peers and --plaintext exclude each other")
	}
	if cs.AuthMode() == connstring.AuthModeClientCredentials {
		config.Tokens, err = credential.NewClientCredentials(credential.ClientCredentialsConfig{
			ClientID: cs.Username, ClientSecret: cs.Password,
		})
		if err != nil {
			return config, &usageError{err: fmt.Errorf("--peers cannot be used: %s", sentence(err))}
		}
	}
	if config.Resolver, err = evenkeel.Resolver(cs); err != nil {
		return config, &usageError{err: fmt.Errorf("--peers cannot be used: %s", sentence(err))}
	}
	if s.plaintext {
		config.Plaintext = true
		return config, nil
	}
	config.TLS = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: cs.SkipTLSValidation} //nolint:gosec // asked for in the string
	if err := addCertificate(s.console, config.TLS, cs); err != nil {
		return config, err
	}
	if s.peersCA != "" {
		config.TLS.RootCAs, err = readRoots("--peers-ca", s.peersCA)
	}
	return config, err
}

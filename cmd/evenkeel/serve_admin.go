// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/server"
)

// serveAdmin is the flags that say who may give commands.
type serveAdmin struct {
	file     string
	loopback bool
}

func (a *serveAdmin) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&a.file, "admin", "", "take commands from who has the secret in this file")
	flags.BoolVar(&a.loopback, "admin-loopback", false, "take commands that come over a loopback address, from everybody on this machine")
}

// config says who may give commands; the zero value is nobody.
func (a *serveAdmin) config(c *console) (server.AdminConfig, error) {
	config := server.AdminConfig{Loopback: a.loopback}
	if a.file == "" {
		return config, nil
	}
	var err error
	config.Secret, err = readAdminSecret(c, a.file)
	return config, err
}

// readAdminSecret reads the secret of administrators. Whether it will do, the server says.
func readAdminSecret(c *console, path string) (connstring.Secret, error) {
	text, err := readSecrets(c, "--admin", path, "a secret in one line")
	if err != nil {
		return connstring.Secret{}, err
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return connstring.Secret{}, fmt.Errorf("the --admin file is empty: put a secret of 16 bytes or more there")
	}
	return connstring.NewSecret(text), nil
}

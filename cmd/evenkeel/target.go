// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/internal/certfile"
)

// variable is the environment variable that may hold the connection string.
const variable = "CHRONICLE_CONNECTION_STRING"

// targetHelp is the part of the help on where a connection string comes from.
const targetHelp = `The connection string is the argument, or the content of the --file, or standard input when the argument is "-", or
the variable ` + variable + `; keep strings with secrets out of the argument list.`

// source is where a connection string comes from.
type source string

// The sources.
const (
	fromArgument source = "the argument"
	fromFile     source = "the --file"
	fromInput    source = "standard input"
	fromVariable source = variable
)

// target is the flags that say which cluster is meant and how to trust it.
type target struct {
	file      string
	ca        string
	plaintext bool
	noProxy   bool
}

// addFile adds the flag that reads the connection string.
func (t *target) addFile(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.file, "file", "", "read the connection string from this file")
}

// addTLS adds the flags on trust.
func (t *target) addTLS(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.ca, "ca", "", "trust the root certificates in this PEM file, read at the start, instead of the system's")
	cmd.Flags().BoolVar(&t.noProxy, "no-proxy", false, "connect without a proxy, whatever HTTPS_PROXY says")
	cmd.Flags().BoolVar(&t.plaintext, "plaintext", false, "speak without TLS, to servers that were started with --plaintext")
}

// adviser words failures for a user who gave these flags.
func (t *target) adviser(cs *connstring.ConnString) adviser {
	return adviser{plaintext: t.plaintext, ca: t.ca != "", auth: cs.AuthMode()}
}

// oneString refuses more than one argument without showing any.
func oneString(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usage("give one connection string (quote it, its & ends a command in the shell)")
	}
	return nil
}

// connString reads the connection string.
func (t *target) connString(ctx context.Context, c *console, args []string) (*connstring.ConnString, error) {
	text, from, err := t.text(ctx, c, args)
	if err != nil {
		return nil, err
	}
	return parseConnString(text, from)
}

func parseConnString(text string, from source) (*connstring.ConnString, error) {
	if strings.TrimSpace(text) == "" {
		return nil, usage("the connection string is empty, it came from %s: put one there, such as chronicle://localhost:35000", from)
	}
	cs, err := connstring.Parse(text)
	if err != nil {
		return nil, &usageError{err: fmt.Errorf("the connection string cannot be read: %s", sentence(err))}
	}
	return cs, nil
}

func (t *target) text(ctx context.Context, c *console, args []string) (text string, from source, err error) {
	switch {
	case len(args) == 1 && t.file != "":
		return "", "", usage("give the connection string as an argument or with --file, not both")
	case len(args) == 1 && args[0] == "-":
		text, err = interruptible(ctx, func() (string, error) { return boundedText(fromInput, c.in) })
		return text, fromInput, err
	case len(args) == 1:
		return args[0], fromArgument, nil
	case t.file != "":
		text, err = interruptible(ctx, func() (string, error) { return fileText(t.file) })
		return text, fromFile, err
	}
	if text, found := c.getenv(variable); found {
		return text, fromVariable, nil
	}
	return "", "", usage("no connection string: give it as an argument, with --file, as - on standard input, or in %s", variable)
}

// interruptible reads from what may keep silent for ever, a terminal or a pipe. An interrupt leaves the reading to the end
// of the process.
func interruptible(ctx context.Context, read func() (string, error)) (string, error) {
	type result struct {
		text string
		err  error
	}
	results := make(chan result, 1)
	go func() {
		text, err := read()
		results <- result{text, err}
	}()
	select {
	case r := <-results:
		return r.text, r.err
	case <-ctx.Done():
		return "", interrupted(ctx)
	}
}

func fileText(path string) (string, error) {
	f, err := os.Open(path) //nolint:gosec // the user says which file
	if err != nil {
		return "", fmt.Errorf("the --file cannot be read: %w; give the path of a file that holds the connection string", pathless(err))
	}
	defer func() { _ = f.Close() }() // only read
	return boundedText(fromFile, f)
}

// boundedText reads a connection string and removes one final newline. It reads a little more than the longest string,
// so that one that is too long is refused rather than cut.
func boundedText(from source, r io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, connstring.MaxLength+int64(len("\r\n"))+1))
	if err != nil {
		return "", fmt.Errorf("%s cannot be read: %w", from, pathless(err))
	}
	line, found := strings.CutSuffix(string(text), "\n")
	if found {
		line = strings.TrimSuffix(line, "\r")
	}
	return line, nil
}

// tlsConfig returns the roots to trust and the client certificate; the zero configuration trusts those of the system. The
// configuration has all that the string says of certificates: what is made with it is given withoutCertificate.
func (t *target) tlsConfig(c *console, cs *connstring.ConnString) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: cs.SkipTLSValidation} //nolint:gosec // asked for in the string
	if t.plaintext && t.ca != "" {
		return nil, usage("--ca and --plaintext exclude each other")
	}
	if t.plaintext && cs.CertificatePath != "" {
		return nil, usage("certificatePath in the connection string and --plaintext exclude each other")
	}
	if err := addCertificate(c, config, cs); err != nil {
		return nil, err
	}
	if t.ca == "" {
		return config, nil
	}
	if cs.SkipTLSValidation {
		c.complain("warning: --ca changes nothing, since skipTlsValidation=true in the connection string accepts any certificate")
	}
	roots, err := readRoots("--ca", t.ca)
	if err != nil {
		return nil, err
	}
	config.RootCAs = roots
	return config, nil
}

// addCertificate adds the client certificate of the connection string, where there is one. It is read again when its file
// changes.
func addCertificate(c *console, config *tls.Config, cs *connstring.ConnString) error {
	if cs.CertificatePath == "" {
		return nil
	}
	file, err := certfile.Load(certfile.Config{
		Cert: cs.CertificatePath, Password: cs.CertificatePassword,
		Changed: func(err error) {
			if err != nil {
				c.tell("warning: the client certificate has changed and cannot be used, so that the one before it stays in use: %s", sentence(err))
				return
			}
			c.tell("the client certificate has changed, and the new one is in use")
		},
	})
	if err != nil {
		return fmt.Errorf("certificatePath in the connection string cannot be used: %w", err)
	}
	config.GetClientCertificate = file.ForClient
	return nil
}

// withoutCertificate is a connection string for what gets the client certificate in another way.
func withoutCertificate(cs *connstring.ConnString) *connstring.ConnString {
	bare := *cs
	bare.CertificatePath, bare.CertificatePassword = "", connstring.Secret{}
	return &bare
}

// readRoots reads the root certificates of a file.
func readRoots(flag, path string) (*x509.CertPool, error) {
	content, err := readPEM(flag, path)
	if err != nil {
		return nil, err
	}
	certificates, err := certificatesIn(flag, path, content)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	for _, certificate := range certificates {
		roots.AddCert(certificate)
	}
	return roots, nil
}

// pathless drops the operation and the path from an error of package os: the message around it names the file.
func pathless(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

// interrupted is the error of a command that was interrupted before it had a result.
func interrupted(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("ended early: %w", cause)
	}
	return nil
}

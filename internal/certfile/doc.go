// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package certfile reads a certificate with its private key from files, and reads it again when they have changed, so that
// a certificate is renewed without a restart.
//
//	file, err := certfile.Load(certfile.Config{Cert: "tls.crt", Key: "tls.key"})
//	if err != nil {
//		return err
//	}
//	config := &tls.Config{GetCertificate: file.ForServer}
//
// # Configuration
//
// [Config] names the files. A file in PEM form holds the certificate, with intermediate ones behind it, and the key, which
// may stand in a second file. Any other file is taken for PKCS#12, which a password opens, unless there is a second file, or
// PEM is all that is to be taken. Keys that are encrypted inside PEM are refused.
//
// # Errors
//
// Errors say which file is meant and what to do, and hold nothing of its content and no password. When a changed file cannot
// be used, the certificate before it stays in use and Config.Changed is told, once for each content.
//
// # Concurrency
//
// A [File] is safe for concurrent use. It has no goroutine: the files are looked at during handshakes, by one of those that
// go on at a time, once a second at most.
//
// # Specification
//
// RFC 7468 for PEM, RFC 7292 for PKCS#12.
package certfile

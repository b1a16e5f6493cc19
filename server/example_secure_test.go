// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/contract/hostpb"
	"github.com/evenkeel-go/evenkeel/internal/devcert"
	"github.com/evenkeel-go/evenkeel/server"
)

// newSecure makes a server with a certificate, which lets in clients with credentials, and says what it serves. The host
// service stands for those of a program, which registers them with GRPC.
func newSecure(certFile, keyFile string) (*server.Server, error) {
	auth, err := server.NewAuthenticator(server.AuthConfig{
		Clients: []server.AuthClient{{ID: "orders", Secret: connstring.NewSecret("s3cret")}},
	})
	if err != nil {
		return nil, err
	}
	serves, err := contract.New(hostpb.File_host_proto)
	if err != nil {
		return nil, err
	}
	return server.New(server.Config{
		CertFile: certFile, KeyFile: keyFile, // read again when they change
		Auth:     auth,
		Registry: server.NewRegistry(server.RegistryConfig{Name: "node1", Version: "1.2.0", Contract: serves}),
	})
}

// connectSecure is the client: with credentials, roots, and what it needs of a server.
func connectSecure(ctx context.Context, credentials, addr string, roots *x509.CertPool) error {
	needs, err := contract.New(hostpb.File_host_proto)
	if err != nil {
		return err
	}
	conn, err := evenkeel.Dial(ctx, "chronicle://"+credentials+"@"+addr,
		evenkeel.WithTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}), evenkeel.WithContract(needs))
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it returns nil
	answer, err := hostpb.NewServerClient(conn).GetVersionInfo(ctx, &emptypb.Empty{})
	fmt.Println(conn.State(), answer.GetVersion())
	return err
}

// A server that is not for development: TLS with a certificate of its own, credentials, and a contract.
func ExampleNew_secure() {
	folder, err := os.MkdirTemp("", "evenkeel-*")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(folder) }()
	certFile, keyFile, roots, err := issue(folder, "127.0.0.1")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := newSecure(certFile, keyFile)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Registry().Close()
	defer s.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = s.Serve(listener) }() // it ends with Close

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	addr := listener.Addr().String()
	fmt.Println(connectSecure(ctx, "orders:s3cret", addr, roots))
	fmt.Println(errors.Is(connectSecure(ctx, "orders:wrong", addr, roots), evenkeel.ErrUnauthenticated))
	// Output:
	// ready 1.2.0
	// <nil>
	// true
}

// issue stands for the authority that makes a program's certificates: it writes one for the name, and its key.
func issue(folder, name string) (certFile, keyFile string, roots *x509.CertPool, err error) {
	ca, err := devcert.NewCA()
	if err != nil {
		return "", "", nil, err
	}
	pair, err := ca.Issue(name)
	if err != nil {
		return "", "", nil, err
	}
	cert, key, err := devcert.Encode(pair)
	if err != nil {
		return "", "", nil, err
	}
	certFile, keyFile = filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	return certFile, keyFile, ca.Pool(), errors.Join(os.WriteFile(certFile, cert, 0o600), os.WriteFile(keyFile, key, 0o600))
}

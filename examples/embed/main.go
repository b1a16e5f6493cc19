// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Command embed shows how a program that has a gRPC server and an HTTP mux of its own lets clients count and connect:
// the lines with registry. Here both share one plaintext port, as net/http does it, and the address is printed. When it is
// interrupted or terminated its clients move to other servers, where there are any, before it ends.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/evenkeel-go/evenkeel/server"
)

func main() {
	grpcServer, mux := grpc.NewServer(), http.NewServeMux()

	registry := server.NewRegistry(server.RegistryConfig{Name: "embedded"})
	registry.Register(grpcServer)
	mux.Handle("/connections/", registry.Handler())
	mux.Handle("/health", registry.Handler())

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	httpServer := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			grpcServer.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})}
	served := make(chan error, 1)
	go func() { served <- httpServer.Serve(listener) }()

	stop, done := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer done()
	select {
	case err := <-served:
		log.Fatal(err)
	case <-stop.Done():
	}

	// The orderly end: clients are told to move, calls that run have what is left of 30 s to end.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := errors.Join(registry.Drain(ctx), httpServer.Shutdown(ctx)); err != nil {
		log.Print(err)
	}
	registry.Close()
}

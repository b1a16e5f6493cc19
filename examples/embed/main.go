// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Command embed shows how a program that has a gRPC server and an HTTP mux of its own lets clients count and connect:
// the lines with registry. Here both share one plaintext port, as net/http does it, and the address is printed.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"

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
	log.Fatal((&http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			grpcServer.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})}).Serve(listener))
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"

	"google.golang.org/grpc"

	"github.com/evenkeel-go/evenkeel/server"
)

// A gRPC server and a mux that exist already get the registry in three lines.
func ExampleRegistry() {
	grpcServer := grpc.NewServer()
	mux := http.NewServeMux()

	registry := server.NewRegistry(server.RegistryConfig{Name: "node1", Version: "1.0.0"})
	registry.Register(grpcServer)
	mux.Handle("/", registry.Handler())

	web := httptest.NewServer(mux)
	defer web.Close()
	response, err := http.Post(web.URL+"/connections/reserve", "", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	fmt.Println(response.Status, registry.Count())
	// Output: 200 OK 1
}

// A server of its own has gRPC, HTTP/1.1 and HTTP/2 on one port.
func ExampleServer() {
	s, err := server.New(server.Config{Plaintext: true}) // without Plaintext it makes a development certificate
	if err != nil {
		fmt.Println(err)
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(listener) }()

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + listener.Addr().String() + "/health")
	if err != nil {
		fmt.Println(err)
		return
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	fmt.Println(string(body), err)

	s.Close()
	fmt.Println(<-done)
	// Output:
	// Healthy <nil>
	// <nil>
}

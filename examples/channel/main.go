// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Command channel makes a plain channel of grpc-go that keeps finding its endpoints, and asks the health of each call's
// server, of which it knows nothing else: TARGET is a name in DNS, such as dns:///api.example:443.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"github.com/evenkeel-go/evenkeel/channel"
)

func main() {
	keep, err := channel.New(channel.Config{Policy: channel.RoundRobin})
	if err != nil {
		log.Fatal(err)
	}
	defer keep.Close()
	conn, err := grpc.NewClient(os.Getenv("TARGET"),
		append(keep.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	for range 10 {
		var server peer.Peer
		health, err := grpc_health_v1.NewHealthClient(conn).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{}, grpc.Peer(&server))
		fmt.Println(server.Addr, health.GetStatus(), err)
	}
}

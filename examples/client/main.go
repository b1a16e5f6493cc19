// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Command client connects to a cluster, calls a generated stub on the connection and says which server answered.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/contract/hostpb"
)

func main() {
	ctx := context.Background()
	conn, err := evenkeel.Dial(ctx, os.Getenv("CHRONICLE_CONNECTION_STRING"))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	info, err := hostpb.NewServerClient(conn).GetVersionInfo(ctx, &emptypb.Empty{})
	fmt.Println(conn.Server(), info.GetVersion(), err)
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package connstring_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/evenkeel-go/evenkeel/connstring"
)

func ExampleParse() {
	conn, err := connstring.Parse("chronicle://app:s3cret@node1,[2001:db8::1]:35001/?loadBalancer=random")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, host := range conn.Hosts {
		fmt.Println(host)
	}
	fmt.Println(conn.AuthMode(), conn.Username, conn.Password, conn.EffectiveLoadBalancer())
	// Output:
	// node1:35000
	// [2001:db8::1]:35001
	// client-credentials app *** random
}

func ExampleParse_srv() {
	conn, err := connstring.Parse("chronicle+srv://cluster.example/?srvNameServer=127.0.0.1")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(conn.SRV, conn.Hosts[0], conn.SRVNameServer, conn.AuthMode())
	// Output: true cluster.example 127.0.0.1:53 none
}

func ExampleParseError() {
	_, err := connstring.Parse("chronicle://app:1234/x@node1")
	if e, ok := errors.AsType[*connstring.ParseError](err); ok {
		fmt.Println(e.Code, "at byte", e.Offset)
	}
	_, err = connstring.Parse("chronicle://node1/?apiKye=s3cret")
	fmt.Println(err)
	// Output:
	// credentials-unescaped at byte 20
	// connstring: option 1 at byte 19: not known (did you mean apiKey?)
}

func ExampleNew() {
	conn, err := connstring.New(connstring.ConnString{
		Hosts:    []connstring.Host{{Name: "node1"}, {Name: "::1", Port: 35001}},
		Username: "app",
		Password: connstring.NewSecret("p@ss/word"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(conn)
	fmt.Println(conn.Unredacted())
	// Output:
	// chronicle://app:***@node1:35000,[::1]:35001
	// chronicle://app:p%40ss%2Fword@node1:35000,[::1]:35001
}

func ExampleConnString_MarshalText() {
	conn, err := connstring.Parse("chronicle://node1/?apiKey=s3cret")
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := json.Marshal(map[string]any{"server": conn})
	fmt.Println(string(text), err)
	// Output: {"server":"chronicle://node1:35000/?apiKey=***"} <nil>
}

func ExampleConnString_LogValue() {
	conn, err := connstring.Parse(connstring.Development)
	if err != nil {
		fmt.Println(err)
		return
	}
	withoutTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	logger.Info("connecting", "to", conn)
	// Output: level=INFO msg=connecting to="chronicle://chronicle-dev-client:***@localhost:35000/?skipTlsValidation=true"
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, err)
		}
		stop()
		os.Exit(1) //nolint:forbidigo,gocritic // this is where the process ends
	}
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("capacity", flag.ContinueOnError)
	flags.SetOutput(stderr)
	kind := flags.String("serve", "", "be a server of that kind, "+kindBare+" or "+kindOurs+", until standard input ends")
	plan := plan{}
	flags.IntVar(&plan.sessions, "sessions", 1000, "how many sessions there are")
	flags.IntVar(&plan.rounds, "rounds", 3, "how often each server is measured")
	flags.DurationVar(&plan.window, "window", 8*time.Second, "how long each measurement takes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *kind != "" {
		return serve(*kind, stdin, stdout)
	}
	var err error
	if plan.program, err = os.Executable(); err != nil {
		return err
	}
	result, err := plan.run(ctx)
	if err != nil {
		return err
	}
	result.print(stdout)
	return nil
}

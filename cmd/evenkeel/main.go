// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// errInterrupted is the cause of the context that a signal ended.
var errInterrupted = errors.New("interrupted")

func main() {
	cobra.EnableCommandSorting = false // help lists the commands in the order in which people meet them
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel(errInterrupted)
		<-signals
		// A live table may have hidden the cursor, and nothing of this process will bring it back.
		if isTerminal(os.Stdout) {
			_, _ = os.Stdout.WriteString(showCursor)
		}
		os.Exit(exitFailed)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

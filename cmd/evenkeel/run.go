// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// The exit statuses.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// run is the whole command. It returns the exit status. It ends soon after ctx is done.
func run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := newConsole(env, stdin, stdout, stderr)
	root := newRoot(c)
	root.SetArgs(args)
	called, err := root.ExecuteContextC(ctx)
	if lost := c.out.failure; lost != nil {
		// What could not be written is more important than what it would have said.
		err = fmt.Errorf("standard output cannot be written: %w", lost)
	}
	if err == nil {
		return exitDone
	}
	c.complain("%s: %s", called.CommandPath(), sentence(err))
	if _, wrong := errors.AsType[*usageError](err); wrong {
		c.complain("see %s --help", called.CommandPath())
		return exitUsage
	}
	return exitFailed
}

// sentence is the text of an error, in one line that is safe for a terminal, without the names of packages in front,
// which say nothing to a person here.
func sentence(err error) string {
	text := err.Error()
	for cut := true; cut; {
		cut = false
		for _, prefix := range []string{"evenkeel: ", "connstring: ", "discover: ", "balance: ", "server: ", "evenkeeltest: ", "contract: ", "sim: "} {
			if rest, found := strings.CutPrefix(text, prefix); found {
				text, cut = rest, true
			}
		}
	}
	return printable(strings.Join(strings.Fields(text), " "), longestSentence)
}

// longestSentence bounds the text of an error that has not been bounded before.
const longestSentence = 2000

func newRoot(c *console) *cobra.Command {
	root := &cobra.Command{
		Use:   "evenkeel",
		Short: "Keep a fleet of gRPC clients on an even keel",
		Long: paragraphs(`
Evenkeel keeps a fleet of gRPC clients on an even keel: it finds the servers, puts each client on the right one, keeps
it connected, and moves it when its server is lost.

Results go to standard output, progress and warnings to standard error. The exit status is 0 when the work was done.
It is 2 when the command was called wrongly, so that calling it again cannot help: a flag or an argument is wrong, or
the connection string, wherever that came from. It is 1 when the work failed: no server answered, a file could not be
read or holds no certificate, a port was taken.

With --json, standard output holds one JSON object a line, and fields without a value are left out.`),
		Example: `  evenkeel demo
  evenkeel serve --listen 127.0.0.1:35000
  evenkeel probe chronicle+srv://prod.example`,
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          noCommand,

		PersistentPreRunE: noEmptyFlag,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SuggestionsMinimumDistance = 2
	root.SetHelpCommand(newHelp())
	root.SetUsageTemplate(usageTemplate)
	root.SetFlagErrorFunc(wrongFlag)
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.AddCommand(newDemo(c), newServe(c), newResolve(c), newProbe(c), newConnect(c), newSimulate(c), newBench(c), newShed(c), newVersion(c))
	return root
}

// noCommand is what the root does: it has no work of its own.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage("say what to do: %s", commandNames(cmd))
	}
	// The argument is shown only where it cannot be a connection string, which may hold a secret.
	if !plainWord(args[0]) {
		return usage("the first argument is no command: say one of %s", commandNames(cmd))
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return usage("there is no command %q: did you mean %s?", args[0], near[0])
	}
	return usage("there is no command %q: say one of %s", args[0], commandNames(cmd))
}

func commandNames(cmd *cobra.Command) string {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

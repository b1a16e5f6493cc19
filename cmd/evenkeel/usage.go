// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageError says that the command was called wrongly: nothing was tried.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...)}
}

var wordPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z-]{0,23}$`)

// plainWord says that an argument cannot hold anything that must not be shown.
func plainWord(arg string) bool { return wordPattern.MatchString(arg) }

// wrongFlag words the errors of flags anew: the originals quote what was given, which may be a connection string that
// went to the wrong place.
func wrongFlag(_ *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if name := unknown.GetSpecifiedName(); plainWord(name) {
			return usage("there is no flag %s", dashed(name))
		}
		return usage("an argument that begins with a dash is no flag of this command")
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return usage("flag %s needs a value", dashed(missing.GetSpecifiedName()))
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag := invalid.GetFlag()
		return usage("flag %s needs %s", dashed(flag.Name), wanted(flag.Value.Type()))
	}
	return usage("the flags cannot be read")
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// wanted describes what a flag of a type takes.
func wanted(kind string) string {
	switch kind {
	case "int":
		return "a whole number"
	case "duration":
		return "a duration such as 250ms or 30s"
	case "bool":
		return "true or false"
	default:
		return "another value"
	}
}

// noEmptyFlag refuses a flag that was given nothing, as scripts do with a variable that is not set: to act as if it were
// absent could mean another cluster, or no certificate.
func noEmptyFlag(cmd *cobra.Command, _ []string) error {
	var err error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" {
			err = usage("flag --%s is empty: give it a value, or leave it out", f.Name)
		}
	})
	return err
}

// noArgs refuses arguments without showing them.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("this command takes flags only, no arguments")
	}
	return nil
}

// inRange checks a number that a flag was given.
func inRange(flag string, got, least, most int) error {
	if got < least || got > most {
		return usage("flag --%s must lie between %d and %d", flag, least, most)
	}
	return nil
}

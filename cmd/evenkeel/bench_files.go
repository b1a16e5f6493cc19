// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build linux || darwin

package main

import (
	"fmt"
	"syscall"
)

// enoughFiles says when this process may not open as many files. Go has raised the limit as far as it goes when the process
// began.
func enoughFiles(needed uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil //nolint:nilerr // it is found out soon enough
	}
	if limit.Cur >= needed {
		return nil
	}
	return fmt.Errorf("this takes %d open files, and this process may have %d: raise the limit (ulimit -n), or give fewer --clients", needed, limit.Cur)
}

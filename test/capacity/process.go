// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of processor times in /proc: 1/100 s on every Linux that Go runs on (USER_HZ).
const clockTick = 10 * time.Millisecond

// process is a server that runs as a process of its own.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	addr  string
}

// start starts a server of a kind and waits until it listens.
func start(ctx context.Context, program, kind string) (*process, error) {
	cmd := exec.CommandContext(ctx, program, "-serve", kind) //nolint:gosec // this program
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the server %s did not say where it listens: %w", kind, err), p.stop())
	}
	p.addr = strings.TrimSpace(line)
	return p, nil
}

// stop ends the server and waits for its end.
func (p *process) stop() error {
	return errors.Join(p.stdin.Close(), p.cmd.Wait())
}

// usage is what the process has used: processor time since its start, and resident memory now, in bytes.
type usage struct {
	cpu time.Duration
	rss int64
}

func (p *process) usage() (usage, error) {
	directory := "/proc/" + strconv.Itoa(p.cmd.Process.Pid)
	stat, err := os.ReadFile(directory + "/stat")
	if err != nil {
		return usage{}, err
	}
	// The name in parentheses may hold blanks. Behind it the 12th and 13th fields are user and system time, and the 22nd is
	// the resident memory in pages.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 22 {
		return usage{}, fmt.Errorf("%s/stat has %d fields behind the name, want 22", directory, len(fields))
	}
	var numbers [3]int64
	for i, field := range []int{11, 12, 21} {
		if numbers[i], err = strconv.ParseInt(fields[field], 10, 64); err != nil {
			return usage{}, fmt.Errorf("%s/stat: %w", directory, err)
		}
	}
	return usage{
		cpu: time.Duration(numbers[0]+numbers[1]) * clockTick,
		rss: numbers[2] * int64(os.Getpagesize()),
	}, nil
}

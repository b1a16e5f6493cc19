// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend && linux

package test_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// namespaceVariable says to a run of the tests that it has a network of its own.
const namespaceVariable = "EVENKEEL_TEST_NAMESPACE"

// inNamespace runs the test again in a process with a user and a network namespace of its own, which end with it, and
// returns false; in that process it makes the loopback interface usable and returns true. No privileges are needed where
// the system lets everybody have namespaces. The limit is that of the process, which builds the command first.
func inNamespace(t *testing.T, limit time.Duration, flags ...string) bool {
	t.Helper()
	if os.Getenv(namespaceVariable) != "" {
		loopbackUp(t)
		return true
	}
	alone(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	// A container may forbid namespaces, and nothing that is installed would change that.
	if output, err := inOwnNetwork(ctx, "/bin/true").CombinedOutput(); err != nil {
		t.Skipf("no network namespace can be had here: %v: %s", err, output)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	flags = append([]string{"-test.run", "^" + t.Name() + "$", "-test.v"}, flags...)
	output, err := inOwnNetwork(ctx, self, flags...).CombinedOutput()
	if err != nil {
		t.Fatalf("in a network of its own: %v\n%s", err, output)
	}
	if !strings.Contains(string(output), "--- PASS: "+t.Name()) {
		t.Fatalf("in a network of its own the test did not pass:\n%s", output)
	}
	for line := range strings.Lines(string(output)) {
		if strings.Contains(line, "_test.go:") {
			t.Log(strings.TrimSpace(line))
		}
	}
	return false
}

// inOwnNetwork is a program in namespaces of its own.
func inOwnNetwork(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), namespaceVariable+"=own")
	cmd.WaitDelay = outputLimit
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	return cmd
}

// loopbackUp makes the loopback interface of a new network usable.
func loopbackUp(t *testing.T) {
	t.Helper()
	onLoopback(t, "lo", unix.SIOCSIFFLAGS, func(request *unix.Ifreq) error {
		request.SetUint16(unix.IFF_UP)
		return nil
	})
}

// addAddress gives the loopback interface one more address, by a label such as "lo:1": Kubernetes takes none of those
// that it has.
func addAddress(t *testing.T, label string, address [4]byte) {
	t.Helper()
	onLoopback(t, label, unix.SIOCSIFADDR, func(request *unix.Ifreq) error { return request.SetInet4Addr(address[:]) })
}

func onLoopback(t *testing.T, label string, request uint, fill func(*unix.Ifreq) error) {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := unix.NewIfreq(label)
	if err == nil {
		err = fill(asked)
	}
	if err == nil {
		err = unix.IoctlIfreq(socket, request, asked)
	}
	if err := errors.Join(err, unix.Close(socket)); err != nil {
		t.Fatalf("interface %s: %v", label, err)
	}
}

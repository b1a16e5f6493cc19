// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package test_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// inCI says that a program which is missing is a fault rather than a reason to skip.
func inCI() bool { return os.Getenv("CI") == "true" }

// missing skips the test, or fails it in CI.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if inCI() {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// find returns the path of a program of somebody else's. Daemons are often not in the PATH of a user.
func find(t *testing.T, name string) string {
	t.Helper()
	candidates := []string{filepath.Join("..", "bin", name), name}
	for _, directory := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		candidates = append(candidates, filepath.Join(directory, name))
	}
	for _, candidate := range candidates {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	missing(t, "there is no %s on this machine", name)
	return ""
}

// grpcurlDirectory holds the grpcurl that was built, and is removed with the command under test.
func grpcurlDirectory() string { return filepath.Dir(evenkeel) }

// buildGRPCurl builds it once, from the version that tools/go.mod pins. Outside CI nothing is downloaded for it.
var buildGRPCurl = sync.OnceValues(func() (string, error) {
	path := filepath.Join(grpcurlDirectory(), program("grpcurl"))
	env := []string{"GOWORK=off"}
	if !inCI() {
		env = append(env, "GOPROXY=off")
	}
	return path, build(path, filepath.Join("..", "tools"), "github.com/fullstorydev/grpcurl/cmd/grpcurl", env...)
})

// grpcurl returns the path of grpcurl.
func grpcurl(t *testing.T) string {
	t.Helper()
	for _, candidate := range []string{filepath.Join("..", "bin", program("grpcurl")), "grpcurl"} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	path, err := buildGRPCurl()
	if err != nil {
		missing(t, "there is no grpcurl on this machine (make bin/grpcurl makes one): %v", err)
	}
	return path
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package test_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/evenkeel-go/evenkeel/internal/need"
)

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
	need.Missing(t, "there is no %s on this machine", name)
	return ""
}

// builtGRPCurl is the path of the grpcurl that tools/go.mod pins, in Go's own cache, where it is built when it is not
// there yet. Outside CI nothing is downloaded for it.
var builtGRPCurl = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "tool", "-n", "grpcurl")
	cmd.Dir = filepath.Join("..", "tools")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if !need.InCI() {
		cmd.Env = append(cmd.Env, "GOPROXY=off")
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	path, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go tool -n grpcurl: %w\n%s", err, stderr.String())
	}
	return strings.TrimSpace(string(path)), nil
})

// grpcurl returns the path of grpcurl.
func grpcurl(t *testing.T) string {
	t.Helper()
	for _, candidate := range []string{filepath.Join("..", "bin", program("grpcurl")), "grpcurl"} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	path, err := builtGRPCurl()
	if err != nil {
		need.Missing(t, "there is no grpcurl on this machine (make bin/grpcurl makes one): %v", err)
	}
	return path
}

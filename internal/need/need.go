// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package need

import (
	"net"
	"os"
	"testing"
)

// InCI says that what is missing is a fault rather than a reason to skip.
func InCI() bool { return os.Getenv("CI") == "true" }

// Missing skips the test, or fails it in CI.
func Missing(tb testing.TB, format string, args ...any) {
	tb.Helper()
	if InCI() {
		tb.Fatalf(format, args...)
		return
	}
	tb.Skipf(format, args...)
}

// IPv6 is for tests that listen on ::1.
func IPv6(tb testing.TB) {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "[::1]:0")
	if err != nil {
		Missing(tb, "no IPv6 here: %v", err)
		return // a testing.TB ends the test before
	}
	_ = listener.Close() // nobody has used it
}

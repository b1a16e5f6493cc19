// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package need_test

import (
	"testing"

	"github.com/evenkeel-go/evenkeel/internal/need"
)

// verdict keeps what a test would have been told.
type verdict struct {
	testing.TB
	told string
}

func (v *verdict) Helper()               {}
func (v *verdict) Fatalf(string, ...any) { v.told = "failed" }
func (v *verdict) Skipf(string, ...any)  { v.told = "skipped" }

func TestWhatIsMissingFailsATestInCIAndSkipsItElsewhere(t *testing.T) {
	for ci, want := range map[string]string{"true": "failed", "": "skipped", "false": "skipped"} {
		t.Setenv("CI", ci)
		v := &verdict{}
		need.Missing(v, "no such thing")
		if v.told != want {
			t.Errorf("with CI=%q the test is %s, want %s", ci, v.told, want)
		}
	}
}

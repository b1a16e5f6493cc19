// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"fmt"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
)

func TestSilenceIsForgottenWhenThereIsTooMuchOfIt(t *testing.T) {
	t.Parallel()
	candidates := []discover.Endpoint{{Host: "a", Port: 1}, {Host: "b", Port: 1}}
	now := time.Now()
	silent := map[string]time.Time{}
	for i := range maxSilent + 1 {
		silent[fmt.Sprintf("n%d:1", i)] = now
	}
	r := newRound(candidates, silent, now)
	r.add(answer{index: 0})
	r.add(answer{index: 1, err: errNoAnswer, late: true})
	if got := r.silence(silent, now); len(got) != 1 || got["b:1"].IsZero() {
		t.Errorf("%d endpoints are remembered as silent, want b alone", len(got))
	}
}

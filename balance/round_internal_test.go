// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"fmt"
	"testing"

	"github.com/evenkeel-go/evenkeel/discover"
)

func TestSilenceIsForgottenWhenThereIsTooMuchOfIt(t *testing.T) {
	t.Parallel()
	candidates := []discover.Endpoint{{Host: "a", Port: 1}, {Host: "b", Port: 1}}
	silent := map[string]bool{}
	for i := range maxSilent + 1 {
		silent[fmt.Sprintf("n%d:1", i)] = true
	}
	r := newRound(candidates, silent)
	r.add(answer{index: 0})
	r.giveUp()
	if got := r.silence(silent); len(got) != 1 || !got["b:1"] {
		t.Errorf("%d endpoints are remembered as silent, want b alone", len(got))
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"testing"

	"github.com/evenkeel-go/evenkeel/sim"
)

func TestOnlyABarThatOursMissesFailsASuite(t *testing.T) {
	t.Parallel()
	rows := []sim.Measured{{Algorithm: sim.Classic}, {Algorithm: sim.Evenkeel, Met: true}, {Algorithm: sim.EvenkeelStock, Met: true}}
	if err := missed(rows); err != nil {
		t.Errorf("got %v, want nothing: ours met its bars", err)
	}
	rows[2].Met = false
	if err := missed(rows); err == nil || err.Error() != "our algorithm missed 1 bar" {
		t.Errorf("got %v, want to be told of the one", err)
	}
}

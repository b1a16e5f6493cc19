// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package extension_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/evenkeel-go/evenkeel/internal/extension"
)

func TestRate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{
		"0": 0, "12.5": 12.5, "1000000": 1e6,
		"": -1, "-1": -1, "NaN": -1, "Inf": -1, "+5": -1, "1e3": -1, "1000001": -1, " 5": -1, "1.2.3": -1, ".": -1, "0x1": -1, strings.Repeat("0", 30): -1,
	} {
		got, said := extension.Rate(http.Header{extension.ArrivalRate: {text}})
		if !said {
			got = -1
		}
		if got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestCapacityOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"1": 1, "1000000": 1000000, "": 0, "0": 0, "-1": 0, "1000001": 0, "2.5": 0, "99999999999": 0} {
		if got := extension.CapacityOf(http.Header{extension.Capacity: {text}}); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

func TestParseAnswer(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{"granted":true,"id":"ABC","count":1}`:             true,
		`{"granted":false,"count":7,"bound":7}`:             true,
		`{"granted":true,"id":"ABC","count":1,"later":[1]}`: true,
		``:                                       false,
		`{}`:                                     false,
		`null`:                                   false,
		`7`:                                      false,
		`{"granted":true,"count":1}`:             false,
		`{"granted":false,"id":"ABC","count":1}`: false,
		`{"granted":true,"id":"../x","count":1}`: false,
		`{"granted":true,"id":"ABC","count":-1}`: false,
		`{"granted":true,"id":"ABC","count":1e400}`:                         false,
		`{"granted":true,"id":"ABC","count":1} extra`:                       false,
		`{"granted":true,"id":"` + strings.Repeat("A", 65) + `","count":1}`: false,
	} {
		if _, ok := extension.ParseAnswer([]byte(text)); ok != want {
			t.Errorf("%s: read %v, want %v", text, ok, want)
		}
	}
}

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte(`{"granted":true,"id":"ABC","count":1,"bound":2}`))
	f.Add([]byte(`{"granted":false,"count":1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if a, ok := extension.ParseAnswer(body); ok && (a.Count < 0 || a.Granted != extension.ValidID(a.ID)) {
			t.Errorf("%q was read as %+v", body, a)
		}
	})
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
)

func TestParseCount(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		body string
		want int // -1: not a count
	}{
		{"zero", "0", 0},
		{"a digit", "5", 5},
		{"several digits", "1234567", 1234567},
		{"leading zeros", "007", 7},
		{"white space around it", " \t\r\n42\r\n \t", 42},
		{"the largest", strconv.Itoa(math.MaxInt), math.MaxInt},
		{"64 bytes", strings.Repeat("0", 63) + "1", 1},
		{"64 bytes with white space", "1" + strings.Repeat(" ", 63), 1},
		{"65 bytes", strings.Repeat("0", 64) + "1", -1},
		{"65 bytes with white space", "1" + strings.Repeat(" ", 64), -1},
		{"empty", "", -1},
		{"white space only", " \n", -1},
		{"a plus sign", "+5", -1},
		{"a negative number", "-1", -1},
		{"negative zero", "-0", -1},
		{"hexadecimal", "0x5", -1},
		{"an exponent", "1e3", -1},
		{"a fraction", "5.0", -1},
		{"an underscore", "1_000", -1},
		{"a comma", "1,000", -1},
		{"two numbers", "1 2", -1},
		{"two lines", "1\n2", -1},
		{"a string", `"5"`, -1},
		{"an object", `{"count":5}`, -1},
		{"null", "null", -1},
		{"a page", "<!doctype html><html></html>", -1},
		{"one more than the largest", "9223372036854775808", -1},
		{"far too large", strings.Repeat("9", 64), -1},
		{"digits of another script", "٣", -1},
		{"another kind of white space", "5\u00a0", -1},
		{"a vertical tab", "5\v", -1},
		{"a zero byte", "5\x00", -1},
		{"a byte order mark", "\ufeff5", -1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseCount([]byte(test.body))
			switch {
			case test.want < 0 && !errors.Is(err, ErrNotCount):
				t.Errorf("parseCount(%q) = %d, %v, want ErrNotCount", test.body, got, err)
			case test.want >= 0 && (err != nil || got != test.want):
				t.Errorf("parseCount(%q) = %d, %v, want %d", test.body, got, err, test.want)
			}
		})
	}
}

func FuzzParseCount(f *testing.F) {
	for _, seed := range []string{"0", " 42\n", "+5", "-1", "0x5", "1e3", "5.0", "9223372036854775807", "9223372036854775808", "<html>", ""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := parseCount(body)
		digits := bytes.Trim(body, " \t\r\n")
		want, parseErr := strconv.ParseUint(string(digits), 10, strconv.IntSize-1)
		valid := parseErr == nil && len(body) <= 64 // ParseUint takes digits only when the base is given
		if valid != (err == nil) || valid && got != int(want) {
			t.Errorf("parseCount(%q) = %d, %v, strconv says %d, %v", body, got, err, want, parseErr)
		}
	})
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package connstring_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/evenkeel-go/evenkeel/connstring"
)

// longInputs are the strings of up to n bytes that make a parser work hardest. All of them parse.
func longInputs(n int) map[string]string {
	fill := func(head, unit, tail string) string {
		return head + strings.Repeat(unit, max(0, (n-len(head)-len(tail))/len(unit))) + tail
	}
	return map[string]string{
		"hosts":        fill("chronicle://a", ",a", ""),
		"IPv6":         fill("chronicle://[::]", ",[::1]", ""),
		"port":         fill("chronicle://a:", "0", "1"),
		"empty pairs":  fill("chronicle://a?", "&", ""),
		"escapes":      fill("chronicle://u:", "%41", "@a"),
		"raw password": fill("chronicle://u:", "!", "@a"),
		"colons":       fill("chronicle://u:", ":", "@a"),
		"user":         fill("chronicle://", "ü", ":p@a"),
		"key":          fill("chronicle://a?apiKey=", "=", ""),
		"escaped name": fill("chronicle://a?", "&", "%61uth=none"),
	}
}

func TestLongestStrings(t *testing.T) {
	t.Parallel()
	for name, input := range longInputs(connstring.MaxLength) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := mustParse(t, input)
			if full := c.Unredacted(); len(full) > connstring.MaxLength {
				t.Errorf("the full form has %d bytes, more than can be parsed", len(full))
			}
			if compact := connstring.CompactForTest(c); len(compact) > len(input) {
				t.Errorf("the compact form has %d bytes, the input had %d", len(compact), len(input))
			}
			requireRoundTrip(t, c)
		})
	}
}

func TestLengthLimit(t *testing.T) {
	t.Parallel()
	const head = "chronicle://a?apiKey="
	atLimit := head + strings.Repeat("k", connstring.MaxLength-len(head))
	requireRoundTrip(t, mustParse(t, atLimit))
	_, err := connstring.Parse(atLimit + "k")
	requireCode(t, err, connstring.CodeTooLong)
	e := parseError(t, err)
	if got, want := e.Error(), "connstring: string at byte 65536: longer than 65536 bytes"; got != want {
		t.Errorf("got error %q, want %q", got, want)
	}
	// The limit comes first: nothing of a string that is too long is looked at.
	_, err = connstring.Parse(strings.Repeat("@", 10*connstring.MaxLength))
	requireCode(t, err, connstring.CodeTooLong)
}

// TestAllocationsDoNotGrowWithTheInput is the deterministic half of the claim that parsing is linear: whatever is in
// the string, the number of allocations is a small constant plus at most one for each host. The benchmark is the
// other half.
func TestAllocationsDoNotGrowWithTheInput(t *testing.T) {
	for _, n := range []int{1 << 10, 1 << 13, connstring.MaxLength} {
		for name, input := range longInputs(n) {
			hosts := len(mustParse(t, input).Hosts)
			allocations := testing.AllocsPerRun(5, func() { _, _ = connstring.Parse(input) })
			limit := float64(12)
			if name == "IPv6" {
				limit += float64(hosts) // the one form of an address is a new string
			}
			if allocations > limit {
				t.Errorf("%s, %d bytes: got %v allocations, want at most %v", name, len(input), allocations, limit)
			}
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for name, input := range map[string]string{
		"host":        "chronicle://localhost",
		"development": connstring.Development,
		"three-hosts": "chronicle://app:hunter2@node1:35000,node2:35001,[2001:db8::1]:35002/?loadBalancer=round-robin",
		"srv":         "chronicle+srv://app:hunter2@cluster.example/?srvNameServer=127.0.0.1:8053",
	} {
		b.Run("input="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := connstring.Parse(input); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkParseLong shows the same rate for every length when parsing is linear.
func BenchmarkParseLong(b *testing.B) {
	for _, n := range []int{1 << 10, 1 << 13, connstring.MaxLength} {
		for name, input := range longInputs(n) {
			b.Run(fmt.Sprintf("input=%s/bytes=%d", strings.ReplaceAll(name, " ", "-"), n), func(b *testing.B) {
				b.SetBytes(int64(len(input)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := connstring.Parse(input); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkString(b *testing.B) {
	c := mustParse(b, connstring.Development)
	b.ReportAllocs()
	for b.Loop() {
		_ = c.String()
	}
}

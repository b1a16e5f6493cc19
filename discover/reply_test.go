// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// malformed are answers made by hand: what is wrong with them, and what they are worth nevertheless.
type malformed struct {
	name    string
	records [][]byte
	want    []string
	faults  []string
}

func malformedAnswers() []malformed {
	good := rawRecord(33, srvBody(1, 2, 3, "good", "test"))
	last := rawRecord(33, srvBody(2, 2, 3, "last", "test"))
	both := []string{"1 2 good.test:3", "2 2 last.test:3"}
	bad := func(name, fault string, body []byte) malformed {
		return malformed{name, [][]byte{good, rawRecord(33, body), last}, both, []string{"record 2: " + fault}}
	}
	whole := srvBody(0, 0, 1, "cut", "test")
	cutOff := rawRecord(33, srvBody(0, 0, 1, "cut", "test"))
	return []malformed{
		bad("empty body", "its length and its content disagree", nil),
		bad("body without a target", "its length and its content disagree", whole[:6]),
		bad("target cut inside the body", "its length and its content disagree", whole[:8]),
		bad("target without its end", "its length and its content disagree", whole[:len(whole)-1]),
		bad("bytes behind the target", "its length and its content disagree", append(srvBody(0, 0, 1, "a"), 0)),
		bad("pointer without its second byte", "its length and its content disagree", append(whole[:6:6], 0xC0)),
		bad("reserved kind of label", "its length and its content disagree", append(whole[:6:6], 0x41, 'a', 0)),
		bad("pointer behind the message", "its target cannot be read", append(whole[:6:6], 0xFF, 0xFF)),
		bad("label with a dot", "its target cannot be read", srvBody(0, 0, 1, "a.b", "test")),
		bad("label with a blank", `its target has the character ' ', which no host name has`, srvBody(0, 0, 1, "a b", "test")),
		bad("label with a star", `its target has the character '*', which no host name has`, srvBody(0, 0, 1, "*", "test")),
		bad("label with a control byte", `its target has the character '\n', which no host name has`, srvBody(0, 0, 1, "a\n", "test")),
		bad("label with a slash", `its target has the character '/', which no host name has`, srvBody(0, 0, 1, "a/b", "test")),
		bad("non-ASCII label", "its target has a non-ASCII letter; write the name in punycode", srvBody(0, 0, 1, "b\xc3\xbc", "test")),
		bad("hyphen at the beginning", "its target has a label that begins or ends with a hyphen", srvBody(0, 0, 1, "-a", "test")),
		bad("address for a target", "its target is an IP address where a DNS name is needed", srvBody(0, 0, 1, "10", "0", "0", "1")),
		{"owner with a dot in a label", [][]byte{good, rawRecordOf(wire("a.b"), 33, whole), last}, both, []string{"record 2: its owner cannot be read"}},
		{"pointer loop in an owner", [][]byte{good, rawRecordOf(loopAfter(good), 33, whole), last}, both, []string{"record 2: its owner cannot be read"}},
		{"message ends inside a record", [][]byte{good, last, cutOff[:len(cutOff)-4]}, both, []string{"record 3: the message ends inside it"}},
		{"message ends inside an owner", [][]byte{good, last, {5, 'a'}}, both, []string{"record 3: the message ends inside it"}},
		{"fewer records than announced", [][]byte{good, last, nil}, both, []string{"record 3: the message ends inside it"}},
		{"only bad ones", [][]byte{rawRecord(33, nil), rawRecord(33, whole[:8])}, nil, []string{"record 1: its length and its content disagree", "record 2: its length and its content disagree"}},
		{"bad alias", [][]byte{rawRecord(5, []byte{3, 'a'}), good, last}, both, []string{"record 1: its target cannot be read"}},
		{"bad ones of another name", [][]byte{good, rawRecordOf(wire("other", "test"), 33, whole[:8]), last}, both, nil},
		{"pointer for a target", [][]byte{rawRecord(33, append(srvBody(0, 0, 7)[:6:6], 0xC0, 28))}, []string{"0 0 x.test:7"}, nil},
	}
}

// loopAfter is a name that points to itself, for a record that follows the given one in a reply.
func loopAfter(first []byte) []byte {
	here := len(rawReply(rawQuestion(), first))
	return binary.BigEndian.AppendUint16(nil, uint16(0xC000|here))
}

func TestSRVMalformedRecordsAreDroppedAndReported(t *testing.T) {
	t.Parallel()
	for _, tt := range malformedAnswers() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			onBothPaths(t, func(t *testing.T, dns *evenkeeltest.DNS, resolver discover.Resolver) {
				setFault(t, dns, owner, "", evenkeeltest.DNSFault{Raw: func(q evenkeeltest.DNSQuery) [][]byte {
					return [][]byte{rawReply(q.Packed, tt.records...)}
				}})
				endpoints, err := resolver.Resolve(lateContext(t))
				if diff := cmp.Diff(tt.want, lines(endpoints)); diff != "" {
					t.Errorf("err %v, endpoints (-want +got):\n%s", err, diff)
				}
				partial, ok := errors.AsType[*discover.PartialError](err)
				if ok != (len(tt.faults) > 0) {
					t.Fatalf("got error %v, want a *PartialError: %v", err, len(tt.faults) > 0)
				}
				if ok {
					checkPartial(t, partial, dns.Addr(), tt.faults)
				}
				if tt.want == nil {
					_ = wantLookupError(t, err, discover.ErrNoRecords, dns.Addr(), "NOERROR")
				}
			})
		})
	}
}

func checkPartial(t *testing.T, partial *discover.PartialError, server string, want []string) {
	t.Helper()
	var faults []string
	for _, fault := range partial.Faults {
		faults = append(faults, fault.Error())
	}
	if diff := cmp.Diff(want, faults); diff != "" || partial.Dropped != len(want) {
		t.Errorf("dropped %d; faults (-want +got):\n%s", partial.Dropped, diff)
	}
	for _, part := range append([]string{owner, server}, want...) {
		if !strings.Contains(partial.Error(), part) {
			t.Errorf("%q does not say %q", partial, part)
		}
	}
}

func TestPartialErrorIsBounded(t *testing.T) {
	t.Parallel()
	records := make([][]byte, 1000)
	for i := range records {
		records[i] = rawRecord(33, nil)
	}
	_, err := discover.JudgeForTest(rawReply(rawQuestion(), records...))
	partial, ok := errors.AsType[*discover.PartialError](err)
	if !ok || partial.Dropped != 1000 || len(partial.Faults) != 16 || len(err.Error()) > 1000 {
		t.Errorf("got %v, want 1000 dropped, 16 faults and a short text", err)
	}
}

// FuzzReply judges any bytes as a reply: no panic, and whatever comes out is fit to be dialled.
func FuzzReply(f *testing.F) {
	for _, answer := range malformedAnswers() {
		f.Add(rawReply(rawQuestion(), answer.records...))
	}
	f.Add(rawReply(rawQuestion(), rawRecord(1, []byte{10, 0, 0, 1}), rawRecord(28, make([]byte, 16)), rawRecord(28, []byte{1})))
	f.Add(rawQuestion())
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, msg []byte) {
		endpoints, err := discover.JudgeForTest(msg)
		if _, failed := errors.AsType[*discover.LookupError](err); failed != (len(endpoints) == 0) {
			t.Fatalf("%d endpoints with error %v", len(endpoints), err)
		}
		if len(endpoints) > len(msg) {
			t.Errorf("%d endpoints of %d bytes", len(endpoints), len(msg))
		}
		if isReply, addrs := discover.ReadForTest(msg); isReply && len(msg) < 12 || slices.ContainsFunc(addrs, func(a netip.Addr) bool {
			return !a.IsValid() || a.IsUnspecified() || a.Is4In6()
		}) {
			t.Errorf("reply %v, addresses %v", isReply, addrs)
		}
		seen := make(map[string]bool)
		for i, e := range endpoints {
			if err := discover.CheckNameForTest(e.Host); err != nil || e.Port == 0 || seen[e.Addr()] || e.Host != strings.ToLower(e.Host) || !e.Absolute {
				t.Errorf("endpoint %q is not fit: %v", e, err)
			}
			seen[e.Addr()] = true
			if i > 0 && (e.Priority < endpoints[i-1].Priority || e.Priority == endpoints[i-1].Priority && e.Weight > endpoints[i-1].Weight) {
				t.Errorf("out of order: %v", lines(endpoints))
			}
		}
		if err != nil && len(err.Error()) > 2000 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}

func BenchmarkReply(b *testing.B) {
	records := make([][]byte, 200)
	for i := range records {
		records[i] = rawRecord(33, srvBody(1, uint16(i), 35000, fmt.Sprintf("node%d", i), "x", "test"))
	}
	msg := rawReply(rawQuestion(), records...)
	b.Run("records=200", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(msg)))
		for b.Loop() {
			if endpoints, err := discover.JudgeForTest(msg); len(endpoints) != 200 || err != nil {
				b.Fatalf("%d endpoints, %v", len(endpoints), err)
			}
		}
	})
}

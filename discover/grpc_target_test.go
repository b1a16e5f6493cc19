// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/resolver/manual"

	"github.com/evenkeel-go/evenkeel/discover"
)

func TestGRPCTargets(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, target             string
		scheme, authority, point string
		shown                    string
	}{
		{"scheme and endpoint", "etcd:///cluster", "etcd", "", "cluster", "etcd:///cluster"},
		{"authority", "etcd://10.0.0.1:2379/cluster", "etcd", "10.0.0.1:2379", "cluster", "etcd://10.0.0.1:2379/cluster"},
		{"upper case", "ETCD:///cluster", "etcd", "", "cluster", "etcd:///cluster"},
		{"opaque", "etcd:cluster", "etcd", "", "cluster", "etcd:///cluster"},
		{"no scheme", "cluster", "etcd", "", "cluster", "etcd:///cluster"},
		{"no scheme, host and port", "node:35000", "etcd", "", "node:35000", "etcd:///node:35000"},
		{"no scheme, IPv4", "10.0.0.1:35000", "etcd", "", "10.0.0.1:35000", "etcd:///10.0.0.1:35000"},
		{"empty", "", "etcd", "", "", "etcd:///"},
		{"query", "etcd:///cluster?password=hidden", "etcd", "", "cluster", "etcd:///cluster"},
		{"user", "etcd://app:hidden@10.0.0.1/cluster", "etcd", "10.0.0.1", "cluster", "etcd://10.0.0.1/cluster"},
		{"user in the endpoint", "app:hidden@cluster", "etcd", "", "app:hidden@cluster", "etcd:///…@cluster"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			target, shown, err := discover.ParseTargetForTest("etcd", tt.target)
			if err != nil {
				t.Fatal(err)
			}
			if target.URL.Scheme != tt.scheme || target.URL.Host != tt.authority || target.Endpoint() != tt.point {
				t.Errorf("got %q, %q, %q; want %q, %q, %q",
					target.URL.Scheme, target.URL.Host, target.Endpoint(), tt.scheme, tt.authority, tt.point)
			}
			if shown != tt.shown {
				t.Errorf("shown as %q, want %q", shown, tt.shown)
			}
		})
	}
}

func TestFromGRPCRefusesTargets(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, target, want string }{
		{"another scheme", "dns:///hidden", `has the scheme "dns", and the builder is for "etcd"`},
		{"no URL", "etcd:///hidden%zz", "is no URL"},
		{"no URL behind the scheme", "hidden%zz", "is no URL"},
		{"a control byte", "hid\nden", "is no URL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := discover.FromGRPC(manual.NewBuilderWithScheme("etcd"), tt.target, discover.GRPCConfig{})
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hid") {
				t.Errorf("got %v, want %q and no part of the target", err, tt.want)
			}
		})
	}
	if _, err := discover.FromGRPC(nil, "etcd:///x", discover.GRPCConfig{}); err == nil {
		t.Error("without a builder: got no error")
	}
}

// Whatever stands behind it, a password is in no error and in nothing that is shown.
func FuzzGRPCTarget(f *testing.F) {
	for _, seed := range []string{"", "host/cluster", "node:35000", "[::1]/x", "%zz", "x?y=z", "x://y", "/", "a@b", "\x00", "#x"} {
		f.Add(seed)
	}
	const secret = "zUniquez"
	f.Fuzz(func(t *testing.T, rest string) {
		for _, before := range []string{"etcd://app:", "etcd:///app:", "etcd:app:", "app:", "dns://app:", "//app:"} {
			target, shown, err := discover.ParseTargetForTest("etcd", before+secret+"@"+rest)
			switch {
			case err != nil && strings.Contains(err.Error(), secret):
				t.Errorf("%s: the error shows the secret: %v", before, err)
			case err == nil && strings.Contains(shown, secret):
				t.Errorf("%s: shown as %q", before, shown)
			case err == nil && target.URL.Scheme != "etcd":
				t.Errorf("%s: got scheme %q, want that of the builder", before, target.URL.Scheme)
			}
		}
	})
}

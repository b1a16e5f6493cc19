// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// resolvConf is the variable that tells the test's own process, started once more, which file to put in the place of
// /etc/resolv.conf.
const resolvConf = "EVENKEEL_TEST_RESOLV_CONF"

// The search list is the machine's, and net.Resolver reads it from one place only: the test runs where that is another
// file.
func TestDNSAppliesTheSearchList(t *testing.T) {
	t.Parallel()
	if path := os.Getenv(resolvConf); path != "" {
		if err := syscall.Mount(path, "/etc/resolv.conf", "", syscall.MS_BIND, ""); err != nil {
			t.Skip("no other resolv.conf can be put in place: ", err)
		}
		t.Run("list", testSearchList)
		return
	}
	path := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(path, []byte("nameserver 192.0.2.1\nsearch s1.test s2.test\noptions ndots:5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDNSAppliesTheSearchList$", "-test.v") //nolint:gosec // ourselves
	cmd.Env = append(os.Environ(), resolvConf+"="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	_, ran := errors.AsType[*exec.ExitError](err)
	switch {
	case err != nil && !ran:
		t.Skip("no namespace of its own can be had here: ", err)
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("%s", out)
	case !strings.Contains(string(out), "--- PASS: TestDNSAppliesTheSearchList/list"):
		t.Errorf("the test has not run:\n%s", out)
	}
}

func testSearchList(t *testing.T) {
	for _, test := range []struct {
		name   string
		config discover.DNSConfig
		zone   map[string][]string
		want   []string // addresses
		asked  []string // names
		kind   error
	}{
		{
			"the first domain of the list goes first",
			discover.DNSConfig{Name: "x.test"},
			map[string][]string{"x.test.s1.test": {"127.0.0.1"}, "x.test.s2.test": {"127.0.0.2"}, "x.test": {"127.0.0.3"}},
			[]string{"127.0.0.1"},
			[]string{"x.test.s1.test"},
			nil,
		},
		{
			"then the second",
			discover.DNSConfig{Name: "x.test"},
			map[string][]string{"x.test.s2.test": {"127.0.0.2"}, "x.test": {"127.0.0.3"}},
			[]string{"127.0.0.2"},
			[]string{"x.test.s1.test", "x.test.s2.test"},
			nil,
		},
		{
			"then the name itself",
			discover.DNSConfig{Name: "x.test"},
			map[string][]string{"x.test": {"127.0.0.3"}},
			[]string{"127.0.0.3"},
			[]string{"x.test", "x.test.s1.test", "x.test.s2.test"},
			nil,
		},
		{
			"families of two names are not mixed",
			discover.DNSConfig{Name: "x.test"},
			map[string][]string{"x.test.s1.test": {"127.0.0.1"}, "x.test.s2.test": {"::1"}},
			[]string{"127.0.0.1"},
			[]string{"x.test.s1.test"},
			nil,
		},
		{
			"a final dot stops it",
			discover.DNSConfig{Name: "x.test."},
			map[string][]string{"x.test.s1.test": {"127.0.0.1"}, "x.test": {"127.0.0.3"}},
			[]string{"127.0.0.3"},
			[]string{"x.test"},
			nil,
		},
		{
			"nothing anywhere",
			discover.DNSConfig{Name: "x.test"},
			nil, nil,
			[]string{"x.test", "x.test.s1.test", "x.test.s2.test"},
			discover.ErrNoSuchName,
		},
		{
			"the name itself without addresses",
			discover.DNSConfig{Name: "x.test"},
			map[string][]string{"below.x.test": {"127.0.0.1"}},
			nil,
			[]string{"x.test", "x.test.s1.test", "x.test.s2.test"},
			discover.ErrNoRecords,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
			for host, addrs := range test.zone {
				for _, a := range addrs {
					dns.SetAddrs(host, addr(a))
				}
			}
			resolver := newDNS(t, test.config)
			t.Cleanup(discover.RedirectSystemForTest(resolver, dns.Addr()))
			endpoints, err := resolver.Resolve(lateContext(t))
			var got []string
			for _, e := range endpoints {
				got = append(got, e.Addrs[0].Addr().String())
				if e.VerifyName() != "x.test" {
					t.Errorf("the name to verify is %q, want it as written", e.VerifyName())
				}
			}
			if !slices.Equal(got, test.want) || !errors.Is(err, test.kind) {
				t.Errorf("got %v, %v; want %v, %v", got, err, test.want, test.kind)
			}
			if failed, ok := errors.AsType[*discover.LookupError](err); ok && failed.Name != "x.test" {
				t.Errorf("the error is about %q", failed.Name)
			}
			if asked := namesAsked(dns); !slices.Equal(asked, test.asked) {
				t.Errorf("asked for %q, want %q", asked, test.asked)
			}
			// net.Resolver, on which the rest of the world stands, does the same.
			stock, _ := discover.SystemResolverForTest(dns.Addr()).LookupNetIP(lateContext(t), "ip", test.config.Name)
			var want []string
			for _, a := range stock {
				want = append(want, a.Unmap().String())
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %v, net.Resolver %v", got, want)
			}
		})
	}
	t.Run("a name server has no list", func(t *testing.T) {
		dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
		dns.SetAddrs("x.test.s1.test", addr("127.0.0.1"))
		_, err := newDNS(t, discover.DNSConfig{Name: "x.test", NameServer: dns.Addr()}).Resolve(lateContext(t))
		if asked := namesAsked(dns); !errors.Is(err, discover.ErrNoSuchName) || !slices.Equal(asked, []string{"x.test"}) {
			t.Errorf("got %v after asking for %q", err, asked)
		}
	})
}

// namesAsked are the names that a server was asked for, each once, sorted.
func namesAsked(dns *evenkeeltest.DNS) []string {
	var names []string
	for _, q := range dns.Queries() {
		names = append(names, q.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

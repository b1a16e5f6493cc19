// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package connstring_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel-go/evenkeel/connstring"
)

// failer is what testing.T and rapid.T have in common.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// requireCode fails unless err is a *ParseError with the code.
func requireCode(tb failer, err error, want connstring.Code) {
	tb.Helper()
	if e := parseError(tb, err); e.Code != want {
		tb.Fatalf("got code %q (%v), want %q", e.Code, e, want)
	}
}

// parseError fails unless err is a *ParseError.
func parseError(tb failer, err error) *connstring.ParseError {
	tb.Helper()
	e, ok := errors.AsType[*connstring.ParseError](err)
	if !ok {
		tb.Fatalf("got error %v, want a *ParseError", err)
	}
	return e
}

func mustParse(tb failer, s string) *connstring.ConnString {
	tb.Helper()
	c, err := connstring.Parse(s)
	if err != nil {
		tb.Fatalf("Parse: got error %v, want none", err)
	}
	return c
}

func TestNewBringsPartsToTheFormOfParse(t *testing.T) {
	t.Parallel()
	one := []connstring.Host{{Name: "node1"}}
	secret := connstring.NewSecret
	tests := []struct {
		name  string
		parts connstring.ConnString
		want  string
	}{
		{"a host without a port", connstring.ConnString{Hosts: one}, "chronicle://node1:35000"},
		{"a name in capitals", connstring.ConnString{Hosts: []connstring.Host{{Name: "NODE1.", Port: 7}}}, "chronicle://node1.:7"},
		{
			"an IPv6 address with a zone",
			connstring.ConnString{Hosts: []connstring.Host{{Name: "FE80:0::1%eth0"}, {Name: "::1", Port: 1}}},
			"chronicle://[fe80::1%25eth0]:35000,[::1]:1",
		},
		{"an srv name", connstring.ConnString{SRV: true, Hosts: one}, "chronicle+srv://node1"},
		{
			"a name server without a port",
			connstring.ConnString{SRV: true, Hosts: one, SRVNameServer: "[fe80::1%lo]"},
			"chronicle+srv://node1/?srvNameServer=[fe80::1%25lo]:53",
		},
		{
			"credentials with every odd byte",
			connstring.ConnString{Hosts: one, Username: "a:b@/?#% \x00", Password: secret("%41+ü\xff")},
			"chronicle://a%3Ab%40%2F%3F%23%25%20%00:%2541%2B%C3%BC%FF@node1:35000",
		},
		{
			"a path with every odd byte",
			connstring.ConnString{Hosts: one, CertificatePath: "a&b=c#d%e\n", CertificatePassword: secret("***")},
			"chronicle://node1:35000/?certificatePath=a%26b%3Dc%23d%25e%0A&certificatePassword=%2A%2A%2A",
		},
		{
			"flags and load balancer",
			connstring.ConnString{Hosts: one, LoadBalancer: "Random", SkipTLSValidation: true, SkipCompatibilityCheck: true, AuthNone: true},
			"chronicle://node1:35000/?auth=none&loadBalancer=random&skipTlsValidation=true&skipCompatibilityCheck=true",
		},
		{"an apiKey", connstring.ConnString{Hosts: one, APIKey: secret("k")}, "chronicle://node1:35000/?apiKey=k"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := connstring.New(tt.parts)
			if err != nil {
				t.Fatalf("New: got error %v, want none", err)
			}
			if full := got.Unredacted(); full != tt.want {
				t.Errorf("Unredacted: got %q, want %q", full, tt.want)
			}
			requireRoundTrip(t, got)
		})
	}
}

func TestNewRefusesWhatParseRefuses(t *testing.T) {
	t.Parallel()
	one := []connstring.Host{{Name: "node1"}}
	secret := connstring.NewSecret
	tests := []struct {
		name  string
		parts connstring.ConnString
		want  string
	}{
		{"no host", connstring.ConnString{}, "host: missing (as in chronicle://localhost:35000)"},
		{"an empty name", connstring.ConnString{Hosts: []connstring.Host{{Name: "a"}, {}}}, "host 2: missing (as in chronicle://localhost:35000)"},
		{
			"a name that holds a port",
			connstring.ConnString{Hosts: []connstring.Host{{Name: "node1:35000"}}},
			"host: not an IPv6 address (write the address without brackets and port)",
		},
		{
			"an address in brackets",
			connstring.ConnString{Hosts: []connstring.Host{{Name: "[::1]"}}},
			"host: not an IPv6 address (write the address without brackets and port)",
		},
		{
			"a name that holds an option",
			connstring.ConnString{Hosts: []connstring.Host{{Name: "node1/?auth=none"}}},
			"host: byte that has no place in a name (names have letters, digits, hyphens, underscores and dots)",
		},
		{
			"a list in one name",
			connstring.ConnString{Hosts: []connstring.Host{{Name: "a,b"}}},
			"host: byte that has no place in a name (names have letters, digits, hyphens, underscores and dots)",
		},
		{
			"two srv names",
			connstring.ConnString{SRV: true, Hosts: []connstring.Host{{Name: "a"}, {Name: "b"}}},
			"host: more than one name with chronicle+srv (list the hosts in SRV records)",
		},
		{
			"an srv port",
			connstring.ConnString{SRV: true, Hosts: []connstring.Host{{Name: "a", Port: 1}}},
			"port: not allowed with chronicle+srv (the ports are in the SRV records)",
		},
		{
			"an srv address",
			connstring.ConnString{SRV: true, Hosts: []connstring.Host{{Name: "::1"}}},
			"host: IP address with chronicle+srv (SRV records belong to a DNS name)",
		},
		{
			"a user without a password",
			connstring.ConnString{Hosts: one, Username: "app"},
			"credentials: password is missing (write user:password@ or neither)",
		},
		{
			"a password without a user",
			connstring.ConnString{Hosts: one, Password: secret("hunter2")},
			"credentials: user name is missing (write user:password@ or neither)",
		},
		{
			"credentials and apiKey",
			connstring.ConnString{Hosts: one, Username: "app", Password: secret("p"), APIKey: secret("k")},
			"option apiKey: apiKey together with user and password (keep one of them)",
		},
		{
			"credentials and auth=none",
			connstring.ConnString{Hosts: one, Username: "app", Password: secret("p"), AuthNone: true},
			"option auth: auth=none together with user and password (keep one of them)",
		},
		{
			"apiKey and auth=none",
			connstring.ConnString{Hosts: one, APIKey: secret("k"), AuthNone: true},
			"option auth: auth=none together with apiKey (keep one of them)",
		},
		{
			"an unknown load balancer",
			connstring.ConnString{Hosts: one, LoadBalancer: "fastest"},
			"option loadBalancer: not a known strategy (use least-connections, round-robin or random)",
		},
		{
			"a name server without srv",
			connstring.ConnString{Hosts: one, SRVNameServer: "ns1"},
			"option srvNameServer: name server without chronicle+srv (begin with chronicle+srv:// or leave it out)",
		},
		{
			"a broken name server",
			connstring.ConnString{SRV: true, Hosts: one, SRVNameServer: "ns1:x"},
			"option srvNameServer: bad port: not a number (write host or host:port, with an IPv6 address in brackets)",
		},
		{
			"too much",
			connstring.ConnString{Hosts: one, APIKey: secret(strings.Repeat("k", connstring.MaxLength))},
			"string: longer than 65536 bytes",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := connstring.New(tt.parts)
			if err == nil {
				t.Fatalf("New: got %v, want an error", got)
			}
			if text := err.Error(); text != "connstring: "+tt.want {
				t.Errorf("New: got error %q, want %q", text, "connstring: "+tt.want)
			}
			if e, ok := errors.AsType[*connstring.ParseError](err); !ok || e.Offset != connstring.NoOffset {
				t.Errorf("New: got error %#v, want a *ParseError without an offset", err)
			}
		})
	}
}

func TestNewLeavesItsInputAlone(t *testing.T) {
	t.Parallel()
	parts := connstring.ConnString{Hosts: []connstring.Host{{Name: "NODE1"}}}
	got, err := connstring.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	if parts.Hosts[0] != (connstring.Host{Name: "NODE1"}) {
		t.Errorf("New changed its input to %v", parts.Hosts)
	}
	parts.Hosts[0].Name = "other"
	if got.Hosts[0].Name != "node1" {
		t.Errorf("got host %q after a change of the parts, want node1", got.Hosts[0].Name)
	}
}

func TestDevelopmentString(t *testing.T) {
	t.Parallel()
	got := mustParse(t, connstring.Development)
	want := parsedVector{
		Hosts:    []connstring.Host{{Name: "localhost", Port: 35000}},
		Username: "chronicle-dev-client", Password: "chronicle-dev-secret",
		AuthMode: connstring.AuthModeClientCredentials, SkipTLSValidation: true,
	}
	if diff := cmp.Diff(want, revealed(got)); diff != "" {
		t.Errorf("Parse(Development) (-want +got):\n%s", diff)
	}
	if full := got.Unredacted(); full != connstring.Development {
		t.Errorf("Unredacted: got %q, want Development", full)
	}
}

func TestDefaultsAreKnowable(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, input, said, effective string
	}{
		{"nothing said", "chronicle://a,b", "", connstring.LeastConnections},
		{"the default said aloud", "chronicle://a,b/?loadBalancer=least-connections", connstring.LeastConnections, connstring.LeastConnections},
		{"another one", "chronicle://a,b/?loadBalancer=RANDOM", connstring.Random, connstring.Random},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := mustParse(t, tt.input)
			if c.LoadBalancer != tt.said || c.EffectiveLoadBalancer() != tt.effective {
				t.Errorf("got %q said and %q effective, want %q and %q", c.LoadBalancer, c.EffectiveLoadBalancer(), tt.said, tt.effective)
			}
		})
	}
}

func TestEqualSeesEveryField(t *testing.T) {
	t.Parallel()
	inputs := []string{
		"chronicle://a",
		"chronicle+srv://a",
		"chronicle://b",
		"chronicle://a.",
		"chronicle://a:1",
		"chronicle://a,b",
		"chronicle://b,a",
		"chronicle://u:p@a",
		"chronicle://v:p@a",
		"chronicle://u:q@a",
		"chronicle://a?apiKey=k",
		"chronicle://a?apiKey=l",
		"chronicle://a?auth=none",
		"chronicle://a?loadBalancer=random",
		"chronicle://a?loadBalancer=least-connections",
		"chronicle://a?skipTlsValidation=true",
		"chronicle+srv://a?srvNameServer=n",
		"chronicle+srv://a?srvNameServer=n:54",
		"chronicle://a?certificatePath=c",
		"chronicle://a?certificatePath=p&certificatePassword=c",
		"chronicle://a?skipCompatibilityCheck=true",
	}
	for i, left := range inputs {
		for j, right := range inputs {
			if got, want := mustParse(t, left).Equal(mustParse(t, right)), i == j; got != want {
				t.Errorf("%q equal to %q: got %t, want %t", left, right, got, want)
			}
		}
	}
	var none *connstring.ConnString
	if !none.Equal(nil) || none.Equal(mustParse(t, inputs[0])) || mustParse(t, inputs[0]).Equal(nil) {
		t.Error("a nil ConnString equals only nil")
	}
}

func TestHostString(t *testing.T) {
	t.Parallel()
	tests := []struct {
		host connstring.Host
		want string
	}{
		{connstring.Host{Name: "node1", Port: 35000}, "node1:35000"},
		{connstring.Host{Name: "fe80::1%eth0", Port: 1}, "[fe80::1%eth0]:1"},
		{connstring.Host{Name: "cluster.example"}, "cluster.example"},
	}
	for _, tt := range tests {
		if got := tt.host.String(); got != tt.want {
			t.Errorf("String: got %q, want %q", got, tt.want)
		}
	}
}

func TestTextEncodingIsRedactedOneWayAndParsedTheOther(t *testing.T) {
	t.Parallel()
	type config struct{ Server connstring.ConnString }
	var c config
	if err := json.Unmarshal([]byte(`{"Server":"chronicle://app:hunter2@NODE1"}`), &c); err != nil {
		t.Fatalf("Unmarshal: %v", err)
	}
	if got := c.Server.Password.Reveal(); got != "hunter2" {
		t.Errorf("got password %q, want the one of the text", got)
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatalf("Marshal: %v", err)
	}
	if want := `{"Server":"chronicle://app:***@node1:35000"}`; string(text) != want {
		t.Errorf("Marshal: got %s, want %s", text, want)
	}
	before := c.Server.Unredacted()
	requireCode(t, json.Unmarshal(text, &c), connstring.CodeRedacted)
	if c.Server.Unredacted() != before {
		t.Error("a failed UnmarshalText changed the value")
	}
}

func TestUnknownOptionSuggestions(t *testing.T) {
	t.Parallel()
	tests := []struct{ option, meant string }{
		{"api_key", "apiKey"},
		{"apikeys", "apiKey"},
		{"oath", "auth"},
		{"load-balancer", "loadBalancer"},
		{"loadBalance", "loadBalancer"},
		{"skipTlsVerification", "skipTlsValidation"},
		{"nameServer", "srvNameServer"},
		{"certificatePasswort", "certificatePassword"},
		{"certifcatePath", "certificatePath"},
		{"skipCompatibiltyCheck", "skipCompatibilityCheck"},
		{"disableTLS1", ""},
		{"colour", ""},
		{"x", ""},
		{"hunter2", ""},
		{strings.Repeat("apiKey", 1000), ""},
	}
	for _, tt := range tests {
		t.Run(tt.option[:min(len(tt.option), 30)], func(t *testing.T) {
			t.Parallel()
			_, err := connstring.Parse("chronicle://a/?" + tt.option + "=x")
			requireCode(t, err, connstring.CodeOptionUnknown)
			e := parseError(t, err)
			want := "did you mean " + tt.meant + "?"
			if tt.meant == "" {
				want = connstring.HintOptionsForTest
			}
			if e.Hint != want {
				t.Errorf("got hint %q, want %q", e.Hint, want)
			}
		})
	}
}

func TestHintNamesEveryOption(t *testing.T) {
	t.Parallel()
	words := strings.FieldsFunc(connstring.HintOptionsForTest, func(r rune) bool { return strings.ContainsRune(" ,;", r) })
	for _, name := range connstring.OptionNamesForTest() {
		if got, want := slices.Contains(words, name), name != "disableTls"; got != want {
			t.Errorf("hint names %s: got %t, want %t", name, got, want)
		}
	}
}

func TestEditDistance(t *testing.T) {
	t.Parallel()
	tests := []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"a", "", 1},
		{"", "ab", 2},
		{"auth", "auth", 0},
		{"auth", "oath", 2},
		{"kitten", "sitting", 3},
		{"flaw", "lawn", 2},
		{"abc", "xyz", 3},
	}
	for _, tt := range tests {
		if got := connstring.EditDistanceForTest(tt.a, tt.b); got != tt.want {
			t.Errorf("distance of %q and %q: got %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

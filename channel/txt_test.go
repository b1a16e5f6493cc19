// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

const txtName = "_grpc_config." + fleetName

// tooShort is a service config under which no call can succeed, so that a test sees when it counts.
const tooShort = `{"methodConfig":[{"name":[{}],"timeout":"0.000000001s"}]}`

// setTXT puts a TXT record into DNS, in strings of 200 bytes, of which a record may have several.
func (f *fleet) setTXT(text string) {
	f.Helper()
	f.dns.Remove(txtName)
	record := txtName + ". 5 IN TXT"
	for len(text) > 0 {
		n := min(200, len(text))
		record += " " + strconv.Quote(text[:n])
		text = text[n:]
	}
	if err := f.dns.AddRecord(record); err != nil {
		f.Fatal(err)
	}
}

// fails calls until a call fails with a code.
func fails(t *testing.T, conn grpc.ClientConnInterface, want codes.Code) {
	t.Helper()
	ctx := testContext(t)
	for {
		_, err := who(ctx, conn)
		if status.Code(err) == want && ctx.Err() == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("got %v of the last call, want %v", err, want)
		}
		tick(t)
	}
}

func TestServiceConfigOfDNSComesAndGoes(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.setTXT(`grpc_config=[{"clientLanguage":["java"],"serviceConfig":{}},{"serviceConfig":` + tooShort + `}]`)
	conn := dial(t, open(t, quick()), f.target())
	if _, err := who(testContext(t), conn); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v of the first call, want the service config of DNS to count", err)
	}
	f.dns.Remove(txtName)
	serves(t, conn)
	reaches(t, conn, f.at(1), f.at(2)) // by our policy again
	f.setTXT(`grpc_config=[{"serviceConfig":` + tooShort + `}]`)
	fails(t, conn, codes.DeadlineExceeded)
	f.setTXT(`grpc_config=[{"serviceConfig":{"loadBalancingConfig":[{"pick_first":{}}]}}]`)
	// Between the two records there was none, and a lookup may have met that.
	for ctx := testContext(t); ; tick(t) {
		serves(t, conn)
		got := tally(t, conn, 20)
		if len(got) == 1 {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("got answers of %v, want those of one server by the policy pick_first of DNS", got)
		}
	}
}

func TestShareOfAServiceConfigOfDNSIsDrawnOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	f.setTXT(`grpc_config=[{"percentage":50,"serviceConfig":` + tooShort + `}]`)
	inside, outside := open(t, quick()), open(t, quick())
	inside.SetRollForTest(50)
	outside.SetRollForTest(51)
	conn := dial(t, inside, f.target())
	_, err := who(testContext(t), conn)
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v inside the share, want the service config of DNS to count", err)
	}
	out := dial(t, outside, f.target())
	tally(t, out, 1)
	if err := f.dns.Wait(testContext(t), txtName, "TXT", f.dns.Count(txtName, "TXT")+6); err != nil {
		t.Fatal(err)
	}
	tally(t, out, 10)
	if _, err := who(testContext(t), conn); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v inside the share later, want the same as before", err)
	}
}

func TestTroubleWithTXTFailsNoResolution(t *testing.T) {
	t.Parallel()
	records := map[string]string{
		"no JSON": "grpc_config=[{", "no list": "grpc_config={}", "not a config": `grpc_config=[{"serviceConfig":[]}]`,
		"another record":     "v=spf1 -all",
		"unknown policy":     `grpc_config=[{"serviceConfig":{"loadBalancingConfig":[{"fastest":{}}]}}]`,
		"config not allowed": `grpc_config=[{"serviceConfig":{"methodConfig":[{"name":[{}],"timeout":"soon"}]}}]`,
	}
	for name, record := range records {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 2)
			f.setTXT(record)
			reaches(t, dial(t, open(t, quick()), f.target()), f.at(1), f.at(2))
			if f.dns.Count(txtName, "TXT") == 0 {
				t.Error("the record was not asked for")
			}
		})
	}
	for name, fault := range map[string]evenkeeltest.DNSFault{
		"server failure": {Code: "SERVFAIL"}, "no such name": {Code: "NXDOMAIN"}, "silence": {Silent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 2)
			if err := f.dns.SetFault(txtName, "", fault); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			c := open(t, quick())
			conn := dial(t, c, f.target())
			reaches(t, conn, f.at(1), f.at(2))
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("the first calls took %v, want about half a second at most", took)
			}
			closesSoon(t, "the channel", func() { _ = c.Close() })
		})
	}
}

func TestServiceConfigOfDNSOutlivesAFailureToLookItUp(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	f.setTXT(`grpc_config=[{"serviceConfig":` + tooShort + `}]`)
	config := quick()
	heard := hear(&config)
	conn := dial(t, open(t, config), f.target())
	fails(t, conn, codes.DeadlineExceeded)
	if err := f.dns.SetFault(txtName, "", evenkeeltest.DNSFault{Code: "SERVFAIL"}); err != nil {
		t.Fatal(err)
	}
	heard.resolved(t, 3)
	if _, err := who(testContext(t), conn); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v, want the service config that was found last to count", err)
	}
}

func TestLateServiceConfigOfDNSCountsFromTheNextLookupOn(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	f.setTXT(`grpc_config=[{"serviceConfig":` + tooShort + `}]`)
	gate := make(chan struct{})
	if err := f.dns.SetFault(txtName, "", evenkeeltest.DNSFault{Gate: gate}); err != nil {
		t.Fatal(err)
	}
	config := quick()
	config.Interval, config.MaxInterval = time.Hour, time.Hour
	conn := dial(t, open(t, config), f.target())
	tally(t, conn, 1)
	close(gate)
	fails(t, conn, codes.DeadlineExceeded)
}

func TestDisabledServiceConfigIsNotLookedUp(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.setTXT(`grpc_config=[{"serviceConfig":` + tooShort + `}]`)
	config := quick()
	heard := hear(&config)
	conn := dial(t, open(t, config), f.target(), grpc.WithDisableServiceConfig())
	reaches(t, conn, f.at(1), f.at(2)) // by our policy all the same
	heard.resolved(t, 2)
	if got := f.dns.Count(txtName, "TXT"); got != 0 {
		t.Errorf("got %d TXT queries, want none", got)
	}
}

func TestEnvironmentDisablesServiceConfigOfDNS(t *testing.T) {
	t.Setenv("GRPC_ENABLE_TXT_SERVICE_CONFIG", "false")
	f := newFleet(t, 1)
	f.setTXT(`grpc_config=[{"serviceConfig":` + tooShort + `}]`)
	tally(t, dial(t, open(t, quick()), f.target()), 5)
	if got := f.dns.Count(txtName, "TXT"); got != 0 {
		t.Errorf("got %d TXT queries, want none", got)
	}
}

func TestUsersServiceConfigIsMerged(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	config := quick()
	config.ServiceConfig = `{"methodConfig":[{"name":[{"service":"test.Who","method":"Stream"}],"timeout":"0.000000001s"}]}`
	conn := dial(t, open(t, config), f.target())
	reaches(t, conn, f.at(1), f.at(2)) // the policy is ours
	if _, _, err := openStream(testContext(t), conn); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v of a method of the service config, want its timeout to count", err)
	}
}

func TestIdleChannelKeepsItsSetAndServiceConfig(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.setTXT(`grpc_config=[{"serviceConfig":{"loadBalancingConfig":[{"evenkeel_random":{}}]}}]`)
	config := quick()
	heard := hear(&config)
	conn := dial(t, open(t, config), f.target(), grpc.WithIdleTimeout(50*time.Millisecond))
	reaches(t, conn, f.at(1), f.at(2))
	for _, fault := range []evenkeeltest.DNSFault{{Silent: true}, {Code: "NXDOMAIN"}, {Code: "SERVFAIL"}} {
		for state := conn.GetState(); state.String() != "IDLE"; state = conn.GetState() {
			if !conn.WaitForStateChange(testContext(t), state) {
				t.Fatalf("the channel stays %v, want it idle", state)
			}
		}
		if err := f.dns.SetFault("", "", fault); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		if _, err := who(ctx, conn); err != nil {
			t.Errorf("got %v of the first call after idle mode while DNS is down, want an answer", err)
		}
		cancel()
	}
	f.dns.ClearFaults()
	f.set(2)
	for ctx := testContext(t); heard.changeCount() < 2; tick(t) { // calls keep it from idle mode
		if _, err := who(ctx, conn); err != nil {
			t.Fatalf("got %v, want answers until the removal is told", err)
		}
	}
	if c := heard.change(1); len(c.Removed) != 1 || len(c.Kept) != 1 || len(c.Added) != 0 {
		t.Errorf("got change %+v, want one endpoint removed and one kept", c)
	}
	reaches(t, conn, f.at(2))
}

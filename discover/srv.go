// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// DefaultService is the service whose SRV records are looked up when SRVConfig names none.
const DefaultService = "_chronicle._tcp"

const (
	// lookupLimit caps a whole lookup.
	lookupLimit = 5 * time.Second
	// addressLimit caps looking up the addresses of all targets, within lookupLimit.
	addressLimit = 2 * time.Second
)

// SRVConfig says which SRV records name the servers.
type SRVConfig struct {
	// Name is the domain the servers belong to, such as "prod.example"; required. It is absolute, with or without a
	// final dot: no search list is applied.
	Name string
	// Service is put in front of Name, such as "_chronicle._tcp"; empty means DefaultService.
	Service string
	// NameServer is the name server to ask, host[:port], with IPv6 in brackets and port 53 unless said; empty means
	// those of the system. A host name is looked up by the system on every lookup.
	NameServer string
	// TargetsInDomain leaves out targets that are neither Name nor below it, and reports them in a *[PartialError]. Who
	// can forge the answer of a name server, but has no certificate for a name in the domain, then leads no client
	// anywhere.
	TargetsInDomain bool
}

// SRV returns a resolver that looks up SRV records afresh on every Resolve.
//
// Endpoints are ordered by priority ascending and weight descending; hosts are in lower case without their final dot,
// and absolute. Records with target "." or port 0 are left out, and so are those that belong to another name than the
// question's (after its CNAMEs). Malformed ones are left out too and reported in a *[PartialError]. Of records for the
// same host and port the one of the lowest priority and then the highest weight counts.
//
// A name server given in the configuration is also asked for the addresses of the targets; where it has none, and with
// the name servers of the system, Addrs stay empty and the dialer looks up [Endpoint.LookupName].
//
// Resolve takes 5 s at most and ends as soon as its context does. Without an endpoint it returns a *[LookupError]. SRV
// itself returns an error for a configuration that names no query; it asks nothing. The resolver is safe for concurrent
// use and needs no closing.
func SRV(config SRVConfig) (Resolver, error) {
	name := canonical(config.Name)
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("discover: the name of an SRV lookup %w", err)
	}
	service := canonical(config.Service)
	if service == "" {
		service = DefaultService
	}
	if err := checkService(service); err != nil {
		return nil, err
	}
	owner := service + "." + name
	if len(owner) > maxName {
		return nil, fmt.Errorf("discover: the name of an SRV lookup is longer than %d bytes with its service", maxName)
	}
	r := &srvResolver{
		owner: owner, question: "SRV " + owner, dial: dialServer, flights: process,
		lookupLimit: lookupLimit, addressLimit: addressLimit,
	}
	if config.TargetsInDomain {
		r.domain, r.question = name, r.question+" in "+name
	}
	if config.NameServer == "" {
		return r, nil
	}
	server, err := parseNameServer(config.NameServer)
	if err != nil {
		return nil, fmt.Errorf("discover: the name server of an SRV lookup %w", err)
	}
	r.asker = &asker{server: server, system: SystemResolver(), resend: resendAfter}
	r.question += " at " + server.String()
	return r, nil
}

func checkService(service string) error {
	first, second, _ := strings.Cut(service, ".")
	if checkName(service) != nil || !strings.HasPrefix(first, "_") || !strings.HasPrefix(second, "_") || strings.Contains(second, ".") {
		return errors.New("discover: the service of an SRV lookup is not of the form _service._proto")
	}
	return nil
}

// srvResolver is immutable.
type srvResolver struct {
	owner    string   // canonical
	domain   string   // canonical; where targets have to be; empty for anywhere
	question string   // what distinguishes it in flights
	dial     dialFunc // reaches the name servers of the system
	asker    *asker   // nil to ask those
	flights  *flights

	lookupLimit, addressLimit time.Duration
}

// srvAnswer is what a lookup brought, which several may share.
type srvAnswer struct {
	outcome

	unfound error // why the name server's own name was not found
	addrs   map[string][]netip.Addr
}

// Resolve implements Resolver.
func (r *srvResolver) Resolve(ctx context.Context) ([]Endpoint, error) {
	if ctx.Err() != nil {
		return nil, r.subject().failure(ctx, outcome{})
	}
	limited, cancel := context.WithTimeout(ctx, r.lookupLimit)
	defer cancel()
	answer, came := share(limited, r.flights, r.question, r.look)
	switch {
	case !came:
		return nil, r.subject().failure(ctx, r.asker.left())
	case answer.unfound != nil:
		return nil, r.subject().serverUnknown(ctx, r.asker.server.String(), overdue(limited, answer.unfound))
	case answer.msg == nil:
		answer.err = overdue(limited, answer.err)
	}
	found, err := r.judge(ctx, answer.outcome)
	if len(found) == 0 {
		return nil, err
	}
	// A deadline that struck only now does no harm: the addresses are looked up when they are dialled.
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, r.subject().failure(ctx, outcome{server: answer.server, asked: answer.asked})
	}
	fillAddrs(found, answer.addrs)
	return found, err
}

// look asks the name servers.
func (r *srvResolver) look(ctx context.Context) srvAnswer {
	if r.asker == nil {
		return srvAnswer{outcome: r.askSystem(ctx)}
	}
	servers, err := r.asker.addresses(ctx)
	if err != nil {
		return srvAnswer{unfound: err}
	}
	o := r.asker.ask(ctx, servers, question(r.owner, dnsmessage.TypeSRV))
	answer := srvAnswer{outcome: o}
	if found, _ := r.judge(ctx, o); len(found) > 0 { // the error is told to each who waits
		answer.addrs = r.asker.addrsOf(ctx, o.server, found, r.addressLimit)
	}
	return answer
}

// askSystem asks as net.Resolver does. Its result is not used: the recorder has what the servers said.
func (r *srvResolver) askSystem(ctx context.Context) outcome {
	record := &recorder{dial: r.dial}
	resolver := net.Resolver{PreferGo: true, Dial: record.dialServer}
	_, _, err := resolver.LookupSRV(ctx, "", "", r.owner+".")
	return record.outcome(err)
}

// question asks for an absolute name. Names are checked before, so that they fit.
func question(name string, kind dnsmessage.Type) dnsmessage.Question {
	return dnsmessage.Question{Name: dnsmessage.MustNewName(name + "."), Type: kind, Class: dnsmessage.ClassINET}
}

// subject is what errors say about the lookup.
func (r *srvResolver) subject() subject { return subject{name: r.owner} }

// judge makes endpoints or an error of what the name servers said. The context is the caller's.
func (r *srvResolver) judge(ctx context.Context, o outcome) ([]Endpoint, error) {
	q := r.subject()
	answer, failed := q.read(ctx, o, dnsmessage.TypeSRV)
	if failed != nil {
		return nil, failed
	}
	records, faults := answer.chosen(r.owner, dnsmessage.TypeSRV)
	records, faults = r.inDomain(records, faults)
	partial := q.partial(o.server, faults)
	found := endpoints(records)
	if len(found) > 0 {
		return found, partial
	}
	none := q.failed(o, answer.code, ErrNoRecords, partial)
	if partial == nil && len(records) > 0 {
		none.Err = fmt.Errorf("%d in the answer, all with target \".\" or port 0, which says that the service is not there", len(records))
	}
	return nil, none
}

// inDomain makes faults of the records whose targets are outside of the domain.
func (r *srvResolver) inDomain(records []record, faults []fault) ([]record, []fault) {
	if r.domain == "" {
		return records, faults
	}
	inside := slices.DeleteFunc(records, func(rec record) bool {
		if rec.absent() || rec.target == r.domain || strings.HasSuffix(rec.target, "."+r.domain) {
			return false
		}
		faults = append(faults, fault{r.owner, fmt.Errorf("its target %q is not in %s", rec.target, r.domain)})
		return true
	})
	return inside, faults
}

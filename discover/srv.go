// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"context"
	"errors"
	"fmt"
	"net"
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
	// TargetsInDomain leaves out targets that are neither Name nor below it, and reports them in a *[PartialError]. Who can
	// forge the answer of a name server, but has no certificate for a name in the domain, then leads no client anywhere.
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
	r := &srvResolver{owner: owner, dial: dialServer, lookupLimit: lookupLimit, addressLimit: addressLimit}
	if config.TargetsInDomain {
		r.domain = name
	}
	if config.NameServer == "" {
		return r, nil
	}
	server, err := parseNameServer(config.NameServer)
	if err != nil {
		return nil, fmt.Errorf("discover: the name server of an SRV lookup %w", err)
	}
	r.asker = &asker{server: server, system: SystemResolver(), resend: resendAfter}
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
	owner  string   // canonical
	domain string   // canonical; where targets have to be; empty for anywhere
	dial   dialFunc // reaches the name servers of the system
	asker  *asker   // nil to ask those

	lookupLimit, addressLimit time.Duration
}

// Resolve implements Resolver.
func (r *srvResolver) Resolve(ctx context.Context) ([]Endpoint, error) {
	if ctx.Err() != nil {
		return nil, r.failure(ctx, outcome{})
	}
	limited, cancel := context.WithTimeout(ctx, r.lookupLimit)
	defer cancel()
	if r.asker == nil {
		return r.judge(ctx, r.askSystem(limited))
	}
	servers, err := r.asker.addresses(limited)
	if err != nil {
		return nil, r.serverUnknown(ctx, err)
	}
	o := r.asker.ask(limited, servers, question(r.owner, dnsmessage.TypeSRV))
	found, err := r.judge(ctx, o)
	if len(found) == 0 {
		return nil, err
	}
	r.asker.fillAddrs(limited, o.server, found, r.addressLimit)
	// A deadline that struck only now does no harm: the addresses are looked up when they are dialled.
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, r.failure(ctx, outcome{server: o.server, asked: o.asked})
	}
	return found, err
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

// judge makes endpoints or an error of what the name servers said. The context is the caller's.
func (r *srvResolver) judge(ctx context.Context, o outcome) ([]Endpoint, error) {
	if o.msg == nil || o.err != nil {
		return nil, r.failure(ctx, o)
	}
	answer, err := parseReply(o.msg, dnsmessage.TypeSRV)
	if err != nil {
		o.err = err
		return nil, r.failure(ctx, o)
	}
	failed := &LookupError{Name: r.owner, Server: o.server, Asked: o.asked, Code: answer.code}
	switch {
	case answer.code == codeNXDomain:
		failed.Kind = ErrNoSuchName
		return nil, failed
	case answer.code != codeNoError:
		failed.Kind = ErrServerFailed
		return nil, failed
	case answer.referral:
		failed.Kind, failed.Err = ErrServerFailed, errReferral
		return nil, failed
	}
	records, faults := answer.chosen(r.owner, dnsmessage.TypeSRV)
	records, faults = r.inDomain(records, faults)
	partial := r.partial(o.server, faults)
	found := endpoints(records)
	if len(found) > 0 {
		return found, partial
	}
	failed.Kind, failed.Err = ErrNoRecords, partial
	if partial == nil && len(records) > 0 {
		failed.Err = fmt.Errorf("%d in the answer, all with target \".\" or port 0, which says that the service is not there", len(records))
	}
	return nil, failed
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

// partial returns nil without faults: a nil *PartialError would be an error that is not nil.
func (r *srvResolver) partial(server string, faults []fault) error {
	if len(faults) == 0 {
		return nil
	}
	partial := &PartialError{Name: r.owner, Server: server, Dropped: len(faults)}
	for _, f := range faults[:min(len(faults), maxFaults)] {
		partial.Faults = append(partial.Faults, f.err)
	}
	return partial
}

// failure tells why no reply came: the caller's context first, since that is what ended the wait.
func (r *srvResolver) failure(ctx context.Context, o outcome) error {
	failed := &LookupError{Name: r.owner, Server: o.server, Asked: o.asked}
	ended := ended(ctx)
	switch {
	case errors.Is(ended, context.Canceled):
		failed.Err = ended
	case ended != nil:
		failed.Kind, failed.Err = ErrTimeout, ended
	case isTimeout(o.err) && o.garbage:
		failed.Kind, failed.Err = ErrServerFailed, errGarbage
	case isTimeout(o.err):
		failed.Kind = ErrTimeout
	default:
		failed.Kind, failed.Err = ErrServerFailed, plain(o.err)
	}
	return failed
}

// serverUnknown tells that the name server's own name could not be looked up. The cause is not wrapped when it is a
// timeout: it would match context.DeadlineExceeded, which stands for the caller's deadline.
func (r *srvResolver) serverUnknown(ctx context.Context, err error) error {
	server := r.asker.server.String()
	failed := &LookupError{Name: r.owner, Server: server, Kind: ErrServerFailed}
	switch {
	case ended(ctx) != nil:
		return r.failure(ctx, outcome{server: server})
	case isTimeout(err):
		failed.Kind, failed.Err = ErrTimeout, errors.New("its own name was not found in time")
	default:
		failed.Err = fmt.Errorf("its own name cannot be looked up: %w", err)
	}
	return failed
}

// ended returns how ctx ended, nil when it did not. Sockets are given its deadline, and may act on it a moment before
// its timer does.
func ended(ctx context.Context) error {
	if deadline, has := ctx.Deadline(); has && ctx.Err() == nil && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && timeout.Timeout()
}

// plain drops the addresses that package net puts around a cause: the name server is named already.
func plain(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil {
		return op.Err
	}
	return err
}

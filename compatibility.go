// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
)

// compatibilityLimit bounds the check of one server.
const compatibilityLimit = 5 * time.Second

// mostReasons is how many reasons of a server are looked at: as many as an IncompatibleError lists.
const mostReasons = 64

// ErrIncompatible is found by errors.Is in the error of a server that does not serve what the client needs, which is a
// *contract.IncompatibleError. Trying that server again does not help before one of the two has another version.
var ErrIncompatible = contract.ErrIncompatible

// noProtocol is the protocol version of a client that claims none. A stock server takes it for the oldest there is, and so
// asks itself whether it serves what the client needs, rather than the other way round.
const noProtocol = "0.0.0"

// ClientInfo is what a client tells servers of itself. Empty fields mean their defaults.
type ClientInfo struct {
	// Type is the kind of client. Default "Evenkeel".
	Type string
	// Version is the client's own. Default: the version of this module in the program.
	Version string
	// ProtocolVersion is the version of the contract that the program was built against, as "major.minor.patch". A stock
	// server that is older than this asks whether the client has all that the server has. Default "0.0.0", which claims
	// none.
	ProtocolVersion string
}

// withDefaults fills in what is empty.
func (i ClientInfo) withDefaults() ClientInfo {
	if i.Type == "" {
		i.Type = clientType
	}
	if i.Version == "" {
		i.Version = self().version
	}
	if i.ProtocolVersion == "" {
		i.ProtocolVersion = noProtocol
	}
	return i
}

// WithClientInfo sets what the client tells servers of itself: in the list of connected clients, and when it asks whether
// they are compatible.
func WithClientInfo(info ClientInfo) Option { return optionFunc(func(c *config) { c.info = info }) }

// WithContract adds what the program needs of a server to what a session needs: a server that lacks it is not used, unless
// skipCompatibilityCheck=true stands in the connection string. It takes contract.New(pb.File_x_proto), or a descriptor set
// that contract.Parse has read.
func WithContract(needed *contract.Contract) Option {
	return optionFunc(func(c *config) { c.contract = needed })
}

// checker asks servers whether they serve what the client needs. A nil one asks nothing.
type checker struct {
	needs   *contract.Contract
	request *clientspb.CompatibilityRequest
}

// checker makes the checker of a Conn.
func (c *config) checker(cs *connstring.ConnString) (*checker, error) {
	if cs.SkipCompatibilityCheck {
		return nil, nil
	}
	if c.contract != nil && c.contract.DescriptorSet() == nil {
		return nil, errors.New("WithContract: the contract has no descriptor set to send")
	}
	needs, err := contract.Needs(c.contract)
	if err != nil {
		return nil, fmt.Errorf("WithContract: %w", err)
	}
	info := c.info.withDefaults()
	return &checker{needs: needs, request: &clientspb.CompatibilityRequest{
		ClientType: info.Type, ClientVersion: info.Version, ProtocolVersion: info.ProtocolVersion,
		DescriptorSet: needs.DescriptorSet(),
	}}, nil
}

// check asks the server at the other end. It returns an *uncheckedError when the server cannot be asked, which is no reason
// not to use it.
func (c *checker) check(ctx context.Context, conn grpc.ClientConnInterface, who *identity) error {
	if c == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, compatibilityLimit)
	defer cancel()
	client := clientspb.NewConnectionServiceClient(conn)
	answer, err := client.CheckCompatibility(ctx, c.request)
	switch {
	case status.Code(err) == codes.Unimplemented:
		return c.checkSchema(ctx, client, who)
	case err != nil:
		return notAnswered("CheckCompatibility", err)
	case answer.GetIsCompatible():
		return nil
	default:
		return refused(answer, who)
	}
}

// refused is the error of a server that says it is not compatible. It may give millions of reasons.
func refused(answer *clientspb.CompatibilityResponse, who *identity) error {
	versions := who.scrubbed(answer.GetServerVersion(), answer.GetServerProtocolVersion())
	reasons := answer.GetIncompatibilities()
	first := min(len(reasons), mostReasons)
	err := contract.Refused(who.scrubbed(reasons[:first]...), versions[0], versions[1])
	err.More += len(reasons) - first
	return err
}

// checkSchema compares with the text in which a server that does not know CheckCompatibility describes its services. What
// the text does not say of the service that answered is there all the same.
func (c *checker) checkSchema(ctx context.Context, client clientspb.ConnectionServiceClient, who *identity) error {
	answer, err := client.GetDescriptorSet(ctx, &emptypb.Empty{})
	switch {
	case status.Code(err) == codes.Unimplemented:
		return &uncheckedError{errors.New("the server describes its services neither by CheckCompatibility nor by GetDescriptorSet")}
	case err != nil:
		return notAnswered("GetDescriptorSet", err)
	}
	offered, err := contract.ParseSchema(answer.GetSchemaDefinition())
	switch {
	case err != nil:
		return &uncheckedError{errors.New("the server's answer to GetDescriptorSet cannot be read: " + who.scrubbed(err.Error())[0])}
	case len(offered.Services()) == 0:
		return &uncheckedError{errors.New("the server's answer to GetDescriptorSet has no services")}
	case !offered.Has(clientspb.ConnectionService_ServiceDesc.ServiceName):
		offered = contract.Overlay(offered, contract.Connections())
	}
	err = contract.Compare(c.needs, offered, contract.AllServices).Err()
	if lacking, ok := errors.AsType[*contract.IncompatibleError](err); ok {
		lacking.Incompatibilities = who.scrubbed(lacking.Incompatibilities...)
	}
	return err
}

// notAnswered tells a connection or a server that does not work from a server that works and will not say.
func notAnswered(method string, err error) error {
	err = fmt.Errorf("%s: %w", method, &foreignError{err})
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return err
	default:
		return &uncheckedError{err}
	}
}

// uncheckedError says why it is not known whether a server is compatible.
type uncheckedError struct{ cause error }

func (e *uncheckedError) Error() string { return e.cause.Error() }

func (e *uncheckedError) Unwrap() error { return e.cause }

// compatible checks the server of a generation, and tells when that cannot be done.
func (a *attempter) compatible(ctx context.Context, gen *generation) error {
	err := a.checker.check(ctx, gen.currentLanes()[0].calls, gen.who)
	unchecked, ok := errors.AsType[*uncheckedError](err)
	if !ok {
		return err
	}
	a.emit(Event{Kind: EventUnchecked, Endpoint: gen.endpoint, Err: unchecked.cause})
	return nil
}

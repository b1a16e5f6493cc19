// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/contract/adminpb"
)

// How often an address may show a wrong secret: so many a second, and so many at once.
const (
	adminFailureRate  = 1
	adminFailureBurst = 10
)

// maxShedOver is the longest time that a shedding may be spread over.
const maxShedOver = 24 * time.Hour

// admin takes the commands of operators.
type admin struct {
	adminpb.UnimplementedAdminServer
	registry *Registry
	loopback bool
	secret   [sha256.Size]byte // its digest
	hasOne   bool              // a secret

	mu       sync.Mutex
	failures *limiter // guarded by mu
}

func newAdmin(r *Registry, config AdminConfig) *admin {
	return &admin{
		registry: r, loopback: config.Loopback,
		secret: sha256.Sum256([]byte(config.Secret.Reveal())), hasOne: !config.Secret.IsZero(),
		failures: newLimiter(adminFailureRate, adminFailureBurst),
	}
}

// Shed ends surplus Connect streams and tells how far it has come.
func (a *admin) Shed(request *adminpb.ShedRequest, stream grpc.ServerStreamingServer[adminpb.ShedProgress]) error {
	ctx := stream.Context()
	if err := a.authorize(ctx); err != nil {
		return err
	}
	over, err := checkShed(request)
	if err != nil {
		return err
	}
	plan, err := a.plan(ctx, request)
	if err != nil {
		return err
	}
	if err := stream.Send(plan); err != nil {
		return err // made by grpc-go, and a status already
	}
	logger := a.registry.config.Logger.With(slog.Any("by", sourceOfCall(ctx).prefix))
	logger.Info("shedding clients", slog.Int64("count", plan.GetPlanned()), slog.Duration("over", over))
	told, err := a.registry.shed(ctx, shedding{n: int(plan.GetPlanned()), over: over, progress: func(told int) error {
		return stream.Send(&adminpb.ShedProgress{
			Told: int64(told), Planned: plan.GetPlanned(), Connected: int64(a.registry.clientCount()), All: plan.GetAll(), Servers: plan.GetServers(),
		})
	}})
	logger.Info("shed clients", slog.Int("count", told))
	return statusOfShed(err)
}

// checkShed reads what is asked for, and finds what cannot be meant.
func checkShed(request *adminpb.ShedRequest) (over time.Duration, err error) {
	if request.GetOver() != nil {
		if err := request.GetOver().CheckValid(); err != nil {
			return 0, status.Error(codes.InvalidArgument, "the time is none")
		}
		over = request.GetOver().AsDuration()
	}
	count := request.GetCount()
	switch {
	case over < 0 || over > maxShedOver:
		return 0, status.Errorf(codes.InvalidArgument, "the time must lie between 0 and %v", maxShedOver)
	case request.GetToMean() && count != 0:
		return 0, status.Error(codes.InvalidArgument, "a count and the mean exclude each other")
	case !request.GetToMean() && (count < 1 || count > math.MaxInt32):
		return 0, status.Error(codes.InvalidArgument, "the count must be 1 or more")
	}
	return over, nil
}

// plan says how many clients are to be sent away.
func (a *admin) plan(ctx context.Context, request *adminpb.ShedRequest) (*adminpb.ShedProgress, error) {
	r := a.registry
	if r.phase() != phaseServing {
		return nil, statusOfShed(ErrDraining)
	}
	own := r.clientCount()
	plan := &adminpb.ShedProgress{Planned: min(request.GetCount(), int64(own)), Connected: int64(own)}
	if !request.GetToMean() {
		return plan, nil
	}
	if r.peers == nil {
		return nil, status.Error(codes.FailedPrecondition, "the server knows of no peers, so it knows no mean: give a count")
	}
	answers, failures := r.peers.answers(ctx)
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	if len(failures) > 0 {
		// Without its clients the mean would come out too low, and too many be sent away.
		f := failures[0]
		return nil, status.Errorf(codes.FailedPrecondition, "the mean is not known, since not all peers answer: %s", headerText(f.where+": "+f.err.Error()))
	}
	all := own
	for _, one := range answers {
		if one.instance == "" {
			// A stock server answers for others as well, whose clients would count twice.
			return nil, status.Error(codes.FailedPrecondition, "the mean is not known, since a peer does not tell its own clients from those of others: give a count")
		}
		all += len(one.items)
	}
	plan.All, plan.Servers = int64(all), int64(len(answers)+1)
	plan.Planned = int64(max(own-share(own, r.config.Capacity, answers), 0))
	return plan, nil
}

// share is how many of all clients belong on this server, rounded up. Capacities count where all servers say theirs, as
// they do for the clients that pick one.
func share(own, capacity int, others []answer) int {
	all, mine, sum := own, capacity, capacity
	told := capacity > 0
	for _, one := range others {
		all += len(one.items)
		sum += one.capacity
		told = told && one.capacity > 0
	}
	if !told {
		mine, sum = 1, len(others)+1
	}
	return (all*mine + sum - 1) / sum
}

// authorize lets in who has the secret, and who is on this machine where that is enough.
func (a *admin) authorize(ctx context.Context) error {
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	if a.loopback && overLoopback(ctx) && (len(values) == 0 || !a.hasOne) {
		return nil
	}
	if !a.hasOne {
		return status.Error(codes.PermissionDenied, "commands are taken on the loopback address only")
	}
	if len(values) == 0 {
		return status.Error(codes.Unauthenticated, "commands need the administrators' secret")
	}
	from, now := sourceOfCall(ctx), time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failures.spent(from, now) {
		return status.Error(codes.ResourceExhausted, "too many wrong secrets, wait a moment")
	}
	scheme, secret, _ := strings.Cut(values[0], " ")
	got := sha256.Sum256([]byte(secret))
	if len(values) > 1 || !strings.EqualFold(scheme, "bearer") || subtle.ConstantTimeCompare(got[:], a.secret[:]) != 1 {
		a.failures.allow(from, now)
		return status.Error(codes.Unauthenticated, "this is not the administrators' secret")
	}
	return nil
}

// overLoopback says that both ends of a connection are on this machine.
func overLoopback(ctx context.Context) bool {
	caller, ok := peer.FromContext(ctx)
	if !ok {
		return false
	}
	loopback := func(a net.Addr) bool {
		address := addrPortOf(a)
		return address.IsValid() && address.Addr().IsLoopback()
	}
	return loopback(caller.Addr) && loopback(caller.LocalAddr)
}

// statusOfShed is how the call ends.
func statusOfShed(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrDraining), errors.Is(err, ErrShedding):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, err.Error())
	}
	if _, ok := status.FromError(err); ok {
		return err // made by grpc-go
	}
	return status.Error(codes.Internal, fmt.Sprintf("shed: %v", err))
}

// clientCount is how many clients are connected.
func (r *Registry) clientCount() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.connected
}

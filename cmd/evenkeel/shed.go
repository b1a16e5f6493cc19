// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/contract/adminpb"
)

const (
	// adminVariable is the environment variable that may hold the secret of administrators.
	adminVariable = "EVENKEEL_ADMIN"
	// longestShed is how long a shedding may take.
	longestShed = 24 * time.Hour
	// answerPatience is how long the server may take for its first answer: it asks its peers meanwhile.
	answerPatience = 10 * time.Second
)

// errSlow ends a call whose server does not answer.
var errSlow = errors.New("no answer")

const shedHelp = `
Send clients of a running server elsewhere: it ends their Connect streams, evenly over a time, those that have been
connected for longest first. Clients of this library make their next session before they let go of this one; stock
clients connect again, by least connections. So a fleet of stock clients, which do not move by themselves, is evened out
when each server sheds what it has more than its share, one server after the other.

With --to-mean the server finds out by itself how many these are: it asks its --peers for their clients, and sheds what
it has more than the mean, rounded up; where all servers were started with --capacity, more than its part of all. It
refuses when a peer does not answer.

The server must have been started with --admin or --admin-loopback, and for --to-mean with --peers. A server without --cert
has a development certificate, which is accepted with skipTlsValidation=true only. The secret is the content of the --admin file, or of
the variable ` + adminVariable + `; over a loopback address none may be needed. ADDRESS is a host, with a port unless
that is 35000, or a connection string of one server, as evenkeel serve prints it.

The command ends when all is done; the clients that were told go on moving then. When it is interrupted no more are told.
The exit status is 0 when as many were told as was said at the beginning.

With --json, one object at the end, unless nobody was told because the server refuses; fields without a value are left
out:

  address     the server, as "host:port"
  planned     how many clients were to be sent away
  told        how many were
  connected   how many clients the server had when the last one was told
  clients     with --to-mean, how many all servers had at the beginning
  servers     with --to-mean, how many servers there are
  elapsed_ms  how long it took`

const shedExamples = `  evenkeel serve --admin-loopback
  evenkeel shed 'chronicle://localhost:35000/?skipTlsValidation=true' --count 20

  evenkeel serve --listen :35000 --cert node-1.pem --key node-1-key.pem \
      --admin admin.txt --peers chronicle+srv://prod.example
  evenkeel shed node-1.example --to-mean --over 2m --admin admin.txt --ca ca.pem`

func newShed(c *console) *cobra.Command {
	s := &shed{console: c}
	cmd := &cobra.Command{
		Use:     "shed ADDRESS",
		Short:   "Send clients of a server elsewhere",
		Long:    paragraphs(shedHelp),
		Example: shedExamples,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("say which server: give its address, such as 127.0.0.1:35000")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return s.run(cmd, args[0]) },
	}
	s.from.addTLS(cmd)
	flags := cmd.Flags()
	flags.IntVar(&s.count, "count", 0, "how many clients to send away")
	flags.BoolVar(&s.toMean, "to-mean", false, "as many as the server has more than its share")
	flags.DurationVar(&s.over, "over", 30*time.Second, "how long to take for it, up to 24h; 0 for all at once")
	flags.StringVar(&s.admin, "admin", "", "the file with the secret of the server's administrators")
	flags.BoolVar(&s.asJSON, "json", false, "print JSON")
	return cmd
}

// shed is a run of the command.
type shed struct {
	console *console
	from    target
	count   int
	toMean  bool
	over    time.Duration
	admin   string
	asJSON  bool
}

// shedReport is the object of shed --json.
type shedReport struct {
	Address   string  `json:"address"`
	Planned   int64   `json:"planned"`
	Told      int64   `json:"told"`
	Connected int64   `json:"connected"`
	Clients   int64   `json:"clients,omitempty"`
	Servers   int64   `json:"servers,omitempty"`
	Elapsed   float64 `json:"elapsed_ms"`
}

func (s *shed) run(cmd *cobra.Command, address string) error {
	if err := s.check(cmd.Flags().Changed("count")); err != nil {
		return err
	}
	cs, err := oneServer(address)
	if err != nil {
		return err
	}
	secret, err := s.secret()
	if err != nil {
		return err
	}
	config, err := s.from.tlsConfig(s.console, cs)
	if err != nil {
		return err
	}
	if s.from.plaintext {
		config = nil
	}
	line, err := newLine(cs.Hosts[0], config)
	if err != nil {
		return err
	}
	began := time.Now()
	plan, last, err := s.call(cmd.Context(), line, secret)
	err = errors.Join(err, line.close())
	// A server can refuse after it has told its plan, and then there is nothing else to tell.
	if last != nil && (err == nil || last.GetTold() > 0) {
		s.show(plan.GetConnected(), shedReport{
			Address: line.address, Planned: last.GetPlanned(), Told: last.GetTold(), Connected: last.GetConnected(),
			Clients: last.GetAll(), Servers: last.GetServers(), Elapsed: milliseconds(time.Since(began)),
		})
	}
	return err
}

// check finds what cannot be meant. counted says that --count was given.
func (s *shed) check(counted bool) error {
	switch {
	case counted && s.toMean:
		return usage("--count and --to-mean exclude each other")
	case !counted && !s.toMean:
		return usage("say how many clients: give --count N, or --to-mean")
	case s.over < 0 || s.over > longestShed:
		return usage("--over must lie between 0 and 24h")
	case s.toMean:
		return nil
	}
	return inRange("count", s.count, 1, math.MaxInt32)
}

// oneServer reads the address of a server, which may be a connection string.
func oneServer(address string) (*connstring.ConnString, error) {
	if !strings.Contains(address, "://") {
		address = "chronicle://" + address
	}
	cs, err := connstring.Parse(address)
	switch {
	case err != nil:
		return nil, &usageError{err: fmt.Errorf("the address cannot be read: %s", sentence(err))}
	case cs.SRV || len(cs.Hosts) != 1:
		return nil, usage("give the address of one server, not of a cluster: each server sheds its own clients")
	case cs.AuthMode() != connstring.AuthModeNone:
		return nil, usage("the credentials of clients are no good for commands: leave them out of the address, and give --admin")
	}
	return cs, nil
}

// secret is what the server wants to see; the zero value where none was given.
func (s *shed) secret() (connstring.Secret, error) {
	if s.admin != "" {
		return readAdminSecret(s.console, s.admin)
	}
	text, _ := s.console.getenv(adminVariable)
	return connstring.NewSecret(strings.TrimSpace(text)), nil
}

// call has the server do it, and returns its plan and what it told last, which may be the plan; nil when it has told nothing.
func (s *shed) call(ctx context.Context, line *line, secret connstring.Secret) (plan, last *adminpb.ShedProgress, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := time.AfterFunc(answerPatience, func() { cancel(errSlow) })
	defer patience.Stop()
	if !secret.IsZero() {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+secret.Reveal())
	}
	stream, err := adminpb.NewAdminClient(line.conn).Shed(ctx, &adminpb.ShedRequest{
		Count: int64(s.count), ToMean: s.toMean, Over: durationpb.New(s.over),
	})
	if err != nil {
		return nil, nil, s.explain(ctx, line, err)
	}
	bar := newProgress(s.console, "telling clients to move")
	defer bar.end()
	for {
		progress, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return plan, last, nil
		case err != nil:
			return plan, last, s.explain(ctx, line, err)
		}
		patience.Stop()
		if last = progress; plan == nil {
			plan = progress
		}
		bar.show(int(progress.GetTold()), int(progress.GetPlanned()))
	}
}

// explain words what a server answered, or why it did not.
func (s *shed) explain(ctx context.Context, line *line, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), errSlow):
		return fmt.Errorf("%s: %w within %v; see that server's log", line.address, errSlow, answerPatience)
	case ctx.Err() != nil:
		return interrupted(ctx)
	}
	said := status.Convert(err)
	switch said.Code() {
	case codes.Unimplemented:
		return fmt.Errorf("%s takes no commands: start it with --admin or --admin-loopback", line.address)
	case codes.Unauthenticated:
		return fmt.Errorf("%s refuses: %s; give the file with the right one as --admin, or the secret in %s", line.address, said.Message(), adminVariable)
	case codes.Unavailable:
		if cause := line.failure(); cause != nil {
			a := adviser{plaintext: s.from.plaintext, ca: s.from.ca != ""}
			return fmt.Errorf("%s cannot be reached: %w%s", line.address, brief(cause), a.trustAdvice(cause)+a.tlsAdvice(cause))
		}
		return fmt.Errorf("the connection to %s was lost%s", line.address, adviser{plaintext: s.from.plaintext}.tlsAdvice(err))
	default:
		return fmt.Errorf("%s refuses: %s", line.address, said.Message())
	}
}

// show tells what came of it. had is how many clients the server had at the beginning.
func (s *shed) show(had int64, r shedReport) {
	if s.asJSON {
		s.console.object(r)
		return
	}
	if r.Servers > 0 {
		s.console.printf("%s on %s", plural(int(r.Clients), "client"), plural(int(r.Servers), "server"))
	}
	clients := plural(int(had), "client")
	switch {
	case r.Planned == 0 && had == 0:
		s.console.printf("nothing to do: %s has no clients", r.Address)
		return
	case r.Planned == 0:
		s.console.printf("nothing to do: %s has %s, which is not more than its share", r.Address, clients)
		return
	case !s.toMean && int64(s.count) > had:
		s.console.printf("%s has %s only, --count is %d", r.Address, clients, s.count)
	}
	s.console.printf("told %d of %d to move; %s had %s before that, which leaves %d", r.Told, r.Planned, r.Address, clients, max(had-r.Told, 0))
}

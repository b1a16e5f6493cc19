// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"

	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/contract/adminpb"
)

// minAdminSecret is the least length of the secret of administrators, in bytes. A longer one cannot be tried out.
const minAdminSecret = 16

// AdminConfig says who may give commands to a running server. The zero value lets nobody, and the commands are not there.
type AdminConfig struct {
	// Secret is what a caller shows as a bearer token: 16 printable ASCII characters at least. The tokens of clients are
	// no good here: who may connect may not send others away.
	Secret connstring.Secret
	// Loopback lets callers without the secret in whose connection comes from a loopback address to one. On a machine
	// where a proxy or a tunnel ends, that is everybody who gets through it.
	Loopback bool
}

// validate reports what cannot be meant.
func (c AdminConfig) validate() error {
	foreign := func(b rune) bool { return b < ' ' || b > '~' }
	secret := c.Secret.Reveal()
	switch length := len(secret); {
	case length == 0 && !c.Loopback:
		return errors.New("admin config: neither Secret nor Loopback: nobody could give commands")
	case length > 0 && length < minAdminSecret:
		return fmt.Errorf("admin config: the secret has %d bytes, want %d at least", length, minAdminSecret)
	case strings.ContainsFunc(secret, foreign) || strings.TrimSpace(secret) != secret:
		return errors.New("admin config: the secret has other than printable ASCII characters, or blanks around it")
	default:
		return nil
	}
}

// RegisterAdmin adds the commands to a server that does not serve yet; a Server does it by Config.Admin. Callers are judged by
// the commands themselves, whatever authentication stands in front of them. The error says what cannot be meant by the
// configuration; nothing is registered then.
func (r *Registry) RegisterAdmin(server *grpc.Server, config AdminConfig) error {
	if err := config.validate(); err != nil {
		return err
	}
	r.registerAdmin(server, config)
	return nil
}

func (r *Registry) registerAdmin(server *grpc.Server, config AdminConfig) {
	adminpb.RegisterAdminServer(server, newAdmin(r, config))
	r.setServing(adminpb.Admin_ServiceDesc.ServiceName)
}

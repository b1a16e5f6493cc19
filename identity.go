// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"crypto/rand"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"sync"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
)

// clientType is what the client calls itself in the list of connected clients.
const clientType = "Evenkeel"

// newConnectionID returns a random UUID (RFC 9562, version 4) in its text form. Every attempt has its own: a server
// may clean up after an older stream by id, and would take the newer one with it.
func newConnectionID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails, says its documentation
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// connectRequest introduces the program to the server.
func connectRequest(id string, info ClientInfo) *clientspb.ConnectRequest {
	me := self()
	return &clientspb.ConnectRequest{
		ConnectionId:  id,
		ClientVersion: info.Version,
		ProcessId:     me.processID,
		ProcessPath:   me.processPath,
		MachineName:   me.machineName,
		ClientType:    info.Type,
	}
}

// program is what a process knows of itself.
type program struct {
	version     string
	processID   int32
	processPath string
	machineName string
}

// self is looked up once: it does not change, and every attempt sends it. What cannot be found out stays empty.
//
//nolint:gochecknoglobals // a constant that takes a look to find
var self = sync.OnceValue(func() program {
	p := program{version: moduleVersion()}
	if pid := os.Getpid(); pid <= math.MaxInt32 {
		p.processID = int32(pid) //nolint:gosec // checked
	}
	if path, err := os.Executable(); err == nil {
		p.processPath = path
	}
	if name, err := os.Hostname(); err == nil {
		p.machineName = name
	}
	return p
})

// moduleVersion is the version of this module in the program's build, or "(devel)".
func moduleVersion() string {
	const module, unknown = "github.com/evenkeel-go/evenkeel", "(devel)"
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	if build.Main.Path == module && build.Main.Version != "" {
		return build.Main.Version
	}
	for _, dep := range build.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	return unknown
}

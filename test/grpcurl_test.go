// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package test_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

const connectionService = "Cratis.Chronicle.Contracts.Clients.ConnectionService"

// grpcurl knows nothing of Evenkeel but its .proto files. It opens a session, is counted, gets keep-alives, and is
// removed when it leaves.
func TestOnePortServesGRPCurlFromTheProtoFiles(t *testing.T) {
	busy(t)
	needSignals(t)
	path := grpcurl(t)
	ctx := within(t)
	ca := newAuthority(t)
	cert, key := ca.issue("node1.test", loopback(1))
	s := serve(ctx, t, loopback(1), "--cert", cert, "--key", key, "--name", "node-1")
	call := func(proto, body, method string) *process {
		return start(t, path, "-cacert", ca.file, "-import-path", filepath.Join("..", "contract", "proto"), "-proto", proto,
			"-d", body, s.Listening, method)
	}

	session := call("clients.proto", `{"ConnectionId":"from-grpcurl","ClientType":"grpcurl","ClientVersion":"1.2.3"}`,
		connectionService+"/Connect")
	session.awaitOutput(ctx, "two keep-alives with its id", func([]string) bool {
		return strings.Count(session.out.String(), `"ConnectionId": "from-grpcurl"`) >= 2
	})
	awaitCount(ctx, t, 1, s)

	list := call("clients.proto", "{}", connectionService+"/GetConnectedClients")
	if status := list.wait(ctx); status != 0 {
		t.Fatalf("GetConnectedClients ended with status %d: %s", status, list.errs)
	}
	type client struct{ ConnectionId, ClientType, Version, SiloAddress string } //nolint:staticcheck // names of the contract
	var clients struct{ Items []client }
	if err := json.Unmarshal([]byte(list.out.String()), &clients); err != nil {
		t.Fatalf("GetConnectedClients answered %s: %v", list.out, err)
	}
	want := client{ConnectionId: "from-grpcurl", ClientType: "grpcurl", Version: "1.2.3", SiloAddress: "node-1"}
	if len(clients.Items) != 1 || clients.Items[0] != want {
		t.Errorf("clients are %+v, want %+v", clients.Items, want)
	}

	session.interrupt(ctx)
	awaitCount(ctx, t, 0, s)
}

// grpcurl's version request is answered however the port is secured.
func TestOnePortTellsGRPCurlItsVersion(t *testing.T) {
	busy(t)
	path := grpcurl(t)
	ctx := within(t)
	for _, tr := range trusts(newAuthority(t)) {
		s := serve(ctx, t, loopback(1), tr.serve...)
		flags := map[string][]string{"http": {"-plaintext"}}[tr.scheme]
		if tr.scheme == "https" {
			flags = grpcurlTrust(tr)
		}
		p := start(t, path, append(flags, "-import-path", filepath.Join("..", "contract", "proto"), "-proto", "host.proto",
			s.Listening, "Cratis.Chronicle.Contracts.Host.Server/GetVersionInfo")...)
		if status := p.wait(ctx); status != 0 {
			t.Fatalf("%s: GetVersionInfo ended with status %d: %s", tr.name, status, p.errs)
		}
		var info struct{ Version string }
		if err := json.Unmarshal([]byte(p.out.String()), &info); err != nil || info.Version == "" {
			t.Errorf("%s: GetVersionInfo answered %q (%v), want a version", tr.name, p.out, err)
		}
	}
}

// grpcurlTrust is what grpcurl calls curl's flags.
func grpcurlTrust(tr trust) []string {
	if len(tr.connect) == 2 {
		return []string{"-cacert", tr.connect[1]}
	}
	return []string{"-insecure"}
}

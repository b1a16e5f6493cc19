// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// TestScripts runs the command as a process of its own, as users do. The scripts have four commands more: "serve NAME
// [ARG...]" starts a server on a free port and sets $NAME and $NAME_STRING once it serves, "stop NAME" sends it SIGTERM
// and wants status 0, "awaitclients NAME N" waits until a server without TLS counts N clients, and "cluster" starts one with
// a name server and sets $SRV, $LIST, $DNS and $CA.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve": scriptServe, "stop": scriptStop, "cluster": scriptCluster, "awaitclients": scriptAwaitClients,
		},
		Setup: func(env *testscript.Env) error {
			env.Values[serversKey{}] = make(map[string]*exec.Cmd)
			return nil
		},
	})
}

type serversKey struct{}

func servers(ts *testscript.TestScript) map[string]*exec.Cmd {
	return ts.Value(serversKey{}).(map[string]*exec.Cmd)
}

func scriptServe(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: serve NAME [ARG...]")
	}
	path, err := exec.LookPath("evenkeel")
	ts.Check(err)
	cmd := exec.Command(path, append([]string{"serve", "--listen", "127.0.0.1:0", "--json"}, args[1:]...)...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	servers(ts)[args[0]] = cmd
	ts.Defer(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // killed: its status says so
		}
	})
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	ts.Check(err)
	var report serveReport
	ts.Check(json.Unmarshal(line, &report))
	ts.Setenv(args[0], report.Listening)
	ts.Setenv(args[0]+"_STRING", report.ConnectionString)
	ts.Setenv(args[0]+"_NAME", report.Name)
}

func scriptAwaitClients(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: awaitclients NAME N")
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	got := ""
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-ticker.C {
		response, err := client.Get("http://" + ts.Getenv(args[0]) + "/connections/count")
		ts.Check(err)
		body, err := io.ReadAll(response.Body)
		ts.Check(errors.Join(err, response.Body.Close()))
		if got = string(body); got == args[1] {
			return
		}
	}
	ts.Fatalf("%s counts %s, want %s", args[0], got, args[1])
}

func scriptStop(ts *testscript.TestScript, _ bool, args []string) {
	cmd := servers(ts)[args[0]]
	ts.Check(cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			ts.Fatalf("%s ended with status %d, want 0", args[0], exit.ExitCode())
		}
		ts.Check(err)
	}
}

func scriptCluster(ts *testscript.TestScript, _ bool, _ []string) {
	cluster, err := evenkeeltest.New(evenkeeltest.Config{})
	ts.Check(err)
	ts.Defer(func() { ts.Check(cluster.Close()) })
	ca := ts.MkAbs("ca.pem")
	ts.Check(os.WriteFile(ca, cluster.CAPEM(), 0o600))
	ts.Check(cluster.DNS.AddRecord(`empty.test. 5 IN TXT "no servers here"`))
	ts.Check(cluster.DNS.SetFault("_chronicle._tcp.broken.test", "SRV", evenkeeltest.DNSFault{Code: "SERVFAIL"}))
	cluster.DNS.SetSRV("_chronicle._tcp.tiers.test",
		evenkeeltest.SRV{Target: "node2.cluster.test", Port: 2, Priority: 1, Weight: 5},
		evenkeeltest.SRV{Target: "node1.cluster.test", Port: 1, Weight: 20})
	ts.Setenv("SRV", cluster.SRVConnectionString())
	ts.Setenv("LIST", cluster.ConnectionString())
	ts.Setenv("DNS", cluster.DNS.Addr())
	ts.Setenv("CA", ca)
}

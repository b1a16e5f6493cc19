// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package test_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// manifests returns the documents in the manifests by kind and name. The API server checks them in TestKube; here they are
// looked at as text, since the module needs no YAML otherwise.
func manifests(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "deploy", "kubernetes", "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("found manifests %q: %v", paths, err)
	}
	found := make(map[string]string)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range strings.Split(string(text), "\n---\n") {
			kind, name := only(t, one, `(?m)^kind: (\w+)$`), only(t, one, `(?m)^metadata:\n  name: ([a-z-]+)$`)
			found[kind+" "+name] = one
			only(t, one, `(?m)^apiVersion: ([a-z0-9/]+)$`)
			for i, line := range strings.Split(one, "\n") {
				indent := len(line) - len(strings.TrimLeft(line, " "))
				if strings.Contains(line, "\t") || strings.TrimRight(line, " ") != line || indent%2 != 0 {
					t.Errorf("%s, line %d of %s %s: a tab, a blank at the end or an odd indent: %q", path, i+1, kind, name, line)
				}
			}
		}
	}
	return found
}

// only returns what the group of an expression matches, which has to match once.
func only(t *testing.T, text, expression string) string {
	t.Helper()
	matches := regexp.MustCompile(expression).FindAllStringSubmatch(text, -1)
	if len(matches) != 1 {
		t.Fatalf("%s matches %d times, want once in:\n%s", expression, len(matches), text)
	}
	return matches[0][1]
}

// seconds is a number of seconds in a manifest, with or without its unit.
func seconds(t *testing.T, text, expression string) int {
	t.Helper()
	n, err := strconv.Atoi(only(t, text, expression))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestDeployManifestsGiveADrainTheTimeItNeeds(t *testing.T) {
	t.Parallel()
	servers := manifests(t)["Deployment evenkeel"]
	grace := seconds(t, servers, `terminationGracePeriodSeconds: (\d+)`)
	sleep := seconds(t, servers, `(?s)preStop:\s+sleep:\s+seconds: (\d+)`)
	period := seconds(t, servers, `--drain-period=(\d+)s`)
	limit := seconds(t, servers, `--drain-limit=(\d+)s`)
	if period >= limit {
		t.Errorf("clients are told to move over %d s, and %d s later the server ends", period, limit)
	}
	if sleep+limit+1 >= grace {
		t.Errorf("preStop takes %d s, a drain %d s and its end 1 s, of a grace period of %d s", sleep, limit, grace)
	}
}

func TestDeployManifestsGiveFlagsThatTheCommandHas(t *testing.T) {
	t.Parallel()
	commands := 0
	for name, one := range manifests(t) {
		_, args, found := strings.Cut(one, `command: ["/evenkeel"]`)
		if !found {
			continue
		}
		commands++
		command := regexp.MustCompile(`args:\s+- (\w+)`).FindStringSubmatch(args)
		if command == nil {
			t.Errorf("%s: the command is given no subcommand", name)
			continue
		}
		help, err := exec.CommandContext(t.Context(), evenkeel, command[1], "--help").CombinedOutput()
		if err != nil {
			t.Errorf("%s: %s --help: %v", name, command[1], err)
		}
		for _, flag := range regexp.MustCompile(`- (--[a-z-]+)`).FindAllStringSubmatch(args, -1) {
			if !strings.Contains(string(help), flag[1]+" ") {
				t.Errorf("%s: %s has no flag %s", name, command[1], flag[1])
			}
		}
	}
	if commands != 2 {
		t.Errorf("%d manifests run the command, want the servers and the clients with sessions", commands)
	}
}

func TestDeployManifestsAndDocumentationAgreeOnNames(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "docs", "kubernetes.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := manifests(t)
	service := all["Service evenkeel"]
	name := only(t, service, `(?m)^metadata:\n  name: ([a-z-]+)$`) + ".default.svc.cluster.local"
	port := only(t, service, `(?m)^    - name: (\w+)$`)
	wants := []string{
		name, "`_" + port + "._tcp`", "_" + port + "._tcp." + name, "*." + name,
		only(t, all["Deployment evenkeel"], `secretName: ([a-z-]+)`), "channel-client", "session-client",
		only(t, all["Deployment channel-client"], `value: (dns:///\S+)`), "chronicle+srv://" + name,
		"`terminationGracePeriodSeconds`", "is " + only(t, all["Deployment evenkeel"], `terminationGracePeriodSeconds: (\d+)`) + ".",
		"`publishNotReadyAddresses` stays `" + only(t, service, `publishNotReadyAddresses: (\w+)`) + "`",
	}
	for _, want := range wants {
		if !strings.Contains(string(text), want) {
			t.Errorf("docs/kubernetes.md does not say %q, which the manifests do", want)
		}
	}
	for _, client := range []string{"Deployment channel-client", "Deployment session-client"} {
		if !strings.Contains(all[client], name) {
			t.Errorf("%s does not name the service %s", client, name)
		}
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend && linux

package test_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

const (
	kubeToken = "token-of-a-test"
	// kubeLook is how often the cluster is asked for what comes without an event.
	kubeLook = 20 * time.Millisecond

	corefile = `. {
  bind 127.0.0.1
  errors
  kubernetes cluster.local {
    kubeconfig %s
    ttl 5
  }
}
`
	kubeconfig = `apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: test}}]
clusters: [{name: test, cluster: {server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}}]
users: [{name: test, user: {token: %s}}]
`
)

// object is one of JSON.
type object = map[string]any

// kube is an API server with its store and a name server, in a network of their own, where their ports are free.
type kube struct {
	t      *testing.T
	client *http.Client
	dns    string // where the name server answers
}

// startKube starts a cluster, which ends with the test.
func startKube(ctx context.Context, t *testing.T, programs string) *kube {
	t.Helper()
	k := &kube{t: t, dns: "127.0.0.1:53", client: &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // it makes its own certificate, in a network of its own
	}}}
	t.Cleanup(k.client.CloseIdleConnections)
	directory := t.TempDir()
	in := func(name string) string { return filepath.Join(directory, name) }
	write(t, in("tokens.csv"), kubeToken+`,admin,1,"system:masters"`+"\n")
	write(t, in("kubeconfig"), fmt.Sprintf(kubeconfig, kubeToken))
	write(t, in("Corefile"), fmt.Sprintf(corefile, in("kubeconfig")))
	writeKey(t, in("sa.key"))

	began := time.Now()
	launchFor(t, filepath.Join(programs, "etcd"), "--data-dir", in("etcd"), "--unsafe-no-fsync", "--log-level", "error")
	launchFor(t, filepath.Join(programs, "kube-apiserver"), "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
		"--secure-port=6443", "--etcd-servers=http://127.0.0.1:2379", "--cert-dir="+in("certs"),
		"--service-account-issuer=https://127.0.0.1", "--service-account-key-file="+in("sa.key"),
		"--service-account-signing-key-file="+in("sa.key"), "--token-auth-file="+in("tokens.csv"), "--authorization-mode=RBAC",
		"--disable-admission-plugins=ServiceAccount", "--service-cluster-ip-range=10.96.0.0/24", "--endpoint-reconciler-type=none")
	k.await(ctx, "the API server", func() bool {
		status, _ := k.ask(ctx, http.MethodGet, "/api/v1/namespaces/default", "", nil)
		return status == http.StatusOK
	})
	launchFor(t, filepath.Join(programs, "coredns"), "-conf", in("Corefile"), "-dns.port", "53")
	k.await(ctx, "the name server", func() bool {
		_, err := k.lookUp(ctx, "kubernetes.default.svc.cluster.local")
		return err == nil
	})
	t.Logf("the cluster was ready after %v", ms(time.Since(began)))
	return k
}

// launchFor starts a program that ends with the test.
func launchFor(t *testing.T, path string, args ...string) {
	t.Helper()
	p := launch(t, kubePatience, path, args...)
	t.Cleanup(func() {
		p.end()
		p.report()
	})
}

// writeKey writes a key that service accounts are signed with.
func writeKey(t *testing.T, path string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
}

// await waits until holds is true.
func (k *kube) await(ctx context.Context, what string, holds func() bool) {
	k.t.Helper()
	ticker := time.NewTicker(kubeLook)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			k.t.Fatalf("wait for %s: %v", what, ctx.Err())
		}
	}
}

// ask makes a request of the API server; status 0 means that it did not answer.
func (k *kube) ask(ctx context.Context, method, path, kind string, body []byte) (status int, answer string) {
	k.t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, "https://127.0.0.1:6443"+path, bytes.NewReader(body))
	if err != nil {
		k.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+kubeToken)
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	status, answer, err = answerTo(k.client, request)
	if err != nil {
		return 0, err.Error()
	}
	return status, answer
}

// put makes an object what is given, whether it was there or not.
func (k *kube) put(ctx context.Context, collection, name string, is object) {
	k.t.Helper()
	body, err := json.Marshal(is)
	if err != nil {
		k.t.Fatal(err)
	}
	status, answer := k.ask(ctx, http.MethodPatch, collection+"/"+name, "application/merge-patch+json", body)
	if status == http.StatusNotFound {
		status, answer = k.ask(ctx, http.MethodPost, collection, "application/json", body)
	}
	if status != http.StatusOK && status != http.StatusCreated {
		k.t.Fatalf("%s: status %d: %s", name, status, answer)
	}
}

// apply creates what is in manifests. Fields that the API server does not know are faults.
func (k *kube) apply(ctx context.Context, paths ...string) {
	k.t.Helper()
	collections := map[string]string{
		"Service": "/api/v1/namespaces/default/services", "Deployment": "/apis/apps/v1/namespaces/default/deployments",
		"PodDisruptionBudget": "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			k.t.Fatal(err)
		}
		for _, one := range strings.Split(string(text), "\n---\n") {
			collection := collections[field(one, "kind")]
			status, answer := k.ask(ctx, http.MethodPost, collection+"?fieldValidation=Strict", "application/yaml", []byte(one))
			if status != http.StatusCreated {
				k.t.Fatalf("%s: %s: status %d: %s", path, field(one, "kind"), status, answer)
			}
		}
	}
}

// field is the value of a field at the top of a manifest.
func field(manifest, name string) string {
	for line := range strings.Lines(manifest) {
		if value, found := strings.CutPrefix(line, name+": "); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// awaitName waits until a name has so many addresses.
func (k *kube) awaitName(ctx context.Context, name string, want int) {
	k.t.Helper()
	k.await(ctx, fmt.Sprintf("%d addresses of %s", want, name), func() bool {
		got, err := k.lookUp(ctx, name)
		return err == nil && got == want
	})
}

// lookUp returns how many addresses a name has.
func (k *kube) lookUp(ctx context.Context, name string) (int, error) {
	client := dns.Client{Timeout: time.Second}
	reply, _, err := client.ExchangeContext(ctx, new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA), k.dns)
	if err != nil {
		return 0, err
	}
	if reply.Rcode != dns.RcodeSuccess && reply.Rcode != dns.RcodeNameError {
		return 0, fmt.Errorf("the name server answers %s", dns.RcodeToString[reply.Rcode])
	}
	return len(reply.Answer), nil
}

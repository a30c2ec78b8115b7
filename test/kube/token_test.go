package kube

import (
	"crypto/x509/pkix"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestToken(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Audit: true})
	server := `servers = ["https://10.0.0.11:6443"]`
	observe := func(t *testing.T) candidate {
		o := newCandidate(t, c)
		must(t, o.Reach(c, "10.0.0.11:6443"))
		return o
	}

	t.Run("the signature comes late", func(t *testing.T) {
		o := observe(t)
		o.cluster(server, o.pin(), token, `retry = "30s"`)
		resume := c.PauseControllers()
		defer resume()
		fresh, err := c.NewToken(t.Context(), "1h")
		must(t, err)
		must(t, o.Credential("bootstrap-token", fresh))
		_, n := asked(t, c, 0)
		go func() {
			_ = waitFor(t.Context(), 20*time.Second, "prelet asked twice", func() string {
				all, err := c.Requests("prelet")
				if err != nil || len(all) < n+2 {
					return fmt.Sprint(len(all)-n, err)
				}
				return ""
			})
			resume()
		}()
		o.plan()
		if got, _ := asked(t, c, n); len(got) < 4 {
			t.Errorf("asked %q: the signature was there from the start; want got at least 4", got)
		}
		o.joins()
	})

	t.Run("a wrong secret is final", func(t *testing.T) {
		o := observe(t)
		o.cluster(server, o.pin(), token, `retry = "30s"`)
		must(t, o.Credential("bootstrap-token", c.Token[:len(c.Token)-1]+"x"))
		_, n := asked(t, c, 0)
		if _, took := o.refused(untrusted, "does not match the token"); took > 20*time.Second { // of 30
			t.Errorf("took %s; want at most 20s", took)
		}
		got, _ := asked(t, c, n)
		for _, r := range got {
			if !strings.HasPrefix(r, "system:anonymous ") {
				t.Errorf("a token that is known to be wrong was sent: got %q; want prefix \"system:anonymous \"", r)
			}
		}
		must(t, o.Credential("bootstrap-token", c.Token))
		o.joins()
	})

	t.Run("expired", func(t *testing.T) {
		o := observe(t)
		const life = 15 * time.Second // prelet has asked with it long before it ends
		short, err := c.NewToken(t.Context(), life.String())
		must(t, err)
		expires := time.Now().Add(life)
		must(t, c.Signed(t.Context(), short))
		must(t, o.Credential("bootstrap-token", short))
		o.cluster(server, o.pin(), token, `retry = "2s"`)
		o.plan()
		time.Sleep(time.Until(expires))
		must(t, waitFor(t.Context(), 10*time.Second, "the signature is gone", func() string {
			info, err := c.ConfigMap(t.Context(), "kube-public", "cluster-info")
			if err != nil || info["jws-kubeconfig-"+short[:6]] != "" {
				return "it is there"
			}
			return ""
		}))
		o.refused(denied, "no signature for the token", "expired")
		ca, err := c.CA()
		must(t, err)
		must(t, o.Write("/etc/kubernetes/ca-given.crt", ca, 0o644))
		o.cluster(server, `ca_file = "/etc/kubernetes/ca-given.crt"`, token, `retry = "2s"`)
		// The API server remembers for ten seconds whom it believed.
		must(t, waitFor(t.Context(), 20*time.Second, "the token is not believed any more", func() string {
			if r, err := o.Prelet(t.Context(), "plan"); err != nil || r.Exit == 0 {
				return fmt.Sprint(r, err)
			}
			return ""
		}))
		o.refused(denied, "Unauthorized", "wrong or expired", "kubeadm token create")
		fresh, err := c.NewToken(t.Context(), "1h") // what the message says
		must(t, err)
		must(t, o.Credential("bootstrap-token", fresh))
		o.joins()
	})

	t.Run("usages", func(t *testing.T) {
		o := observe(t)
		o.cluster(server, o.pin(), token, `retry = "2s"`)
		signing, err := c.NewToken(t.Context(), "1h")
		must(t, err)
		_, err = c.Kubectl(
			t.Context(),
			"-n",
			"kube-system",
			"patch",
			"secret",
			"bootstrap-token-"+signing[:6],
			"--type=merge",
			"-p",
			`{"data":{"usage-bootstrap-authentication":null}}`,
		)
		must(t, err)
		must(t, c.Signed(t.Context(), signing))
		must(t, o.Credential("bootstrap-token", signing))
		o.refused(denied, "Unauthorized")
		only, err := c.NewToken(t.Context(), "1h", "--usages", "authentication")
		must(t, err)
		must(t, o.Credential("bootstrap-token", only))
		o.refused(denied, "no signature for the token", "not for signing")
		must(t, o.Credential("bootstrap-token", c.Token))
		o.joins()
	})

	t.Run("trust by token", func(t *testing.T) {
		o := observe(t)
		o.cluster(server, `trust = "token"`, token)
		must(t, o.Credential("bootstrap-token", c.Token[:len(c.Token)-1]+"x"))
		o.refused(untrusted, "does not match the token")
		must(t, o.Credential("bootstrap-token", c.Token))
		o.joins()
	})

	t.Run("rights", func(t *testing.T) {
		o := observe(t)
		must(
			t,
			c.SetConfigMap(
				t.Context(),
				"kube-system",
				"site-config",
				map[string]string{
					"kubelet": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: " +
						"KubeletConfiguration\nfailCgroupV1: false\nfailSwapOn: false\ncgroupDriver: " +
						"cgroupfs\nauthentication: {x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}\nmaxPods: 20\n",
				},
			),
		)
		must(t, o.Site(map[string]string{"site.hcl": "cluster {\n" + server + "\n" + o.pin() + "\n" + token + `
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/site-config" }
stage "write" "kubelet" {}
stage "restart" "kubelet" {
  verify { settle = "1s" }
}
`}))
		r, _ := o.refused(denied, "system:bootstrap:"+c.Token[:6])
		ran := 0
		for line := range strings.Lines(r.Err) { // what the message says to do, done
			if words := strings.Fields(line); len(words) > 3 && words[0] == "kubectl" && words[3] == "create" {
				ran++
				if _, err := c.Kubectl(t.Context(), words[1:]...); err != nil {
					t.Error(err)
				}
			}
		}
		if ran != 2 {
			t.Fatalf("%d commands to paste, want 2:\n%s", ran, r)
		}
		o.joins()
	})

	t.Run("a plugin gives the node's identity", func(t *testing.T) {
		o := observe(t)
		cert, key := pair(
			t,
			authorityOf(
				t,
				c,
			).issue(t, pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}, time.Now().Add(-time.Hour)),
		)
		quote := func(s string) string { return strings.ReplaceAll(s, "\n", `\n`) }
		ca, err := c.CA()
		must(t, err)
		must(t, o.Write("/etc/kubernetes/pki/ca.crt", ca, 0o644))
		conf := func(output string) {
			must(
				t,
				o.Write(
					"/usr/local/bin/node-identity",
					"#!/bin/sh\ncat <<'END'\n"+`{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": `+output+"}\nEND\n",
					0o755,
				),
			)
			must(t, o.Write("/etc/kubernetes/kubelet.conf", `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://10.0.0.11:6443", certificate-authority: /etc/kubernetes/pki/ca.crt}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
users:
- name: u
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: /usr/local/bin/node-identity, interactiveMode: Never}
`, 0o600))
		}
		must(t, o.Credential("bootstrap-token", ""))
		o.cluster(server, o.pin(), token)
		conf(fmt.Sprintf(`{"clientCertificateData": "%s", "clientKeyData": "%s"}`, quote(cert), quote(key)))
		_, n := asked(t, c, 0)
		o.plan()
		if got, _ := asked(t, c, n); len(got) == 0 || !strings.HasPrefix(got[len(got)-1], "system:node:n1 ") {
			t.Errorf("asked %q; want at least one and prefix \"system:node:n1 \"", got)
		}
		conf(fmt.Sprintf(`{"token": %q}`, c.Token))
		_, n = asked(t, c, 0)
		o.plan()
		if got, _ := asked(t, c, n); len(got) == 0 || !strings.HasPrefix(got[len(got)-1], "system:bootstrap:") {
			t.Errorf("asked %q; want at least one and prefix \"system:bootstrap:\"", got)
		}
	})
}

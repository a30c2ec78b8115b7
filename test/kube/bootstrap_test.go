package kube

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBootstrapPlugin joins a node whose image brings a bootstrap kubeconfig that names a credential plugin, as
// clouds do: prelet reads the configuration with what the plugin gives, and the real kubelet joins with the same
// file. First everything that such a plugin can do wrong, on the same machine.
func TestBootstrapPlugin(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Audit: true})
	n := newNode(t, c, NodeOptions{}, "10.0.0.11:6443")
	pin, err := c.Pin()
	must(t, err)
	ca, err := c.CA()
	must(t, err)
	conf := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://10.0.0.11:6443", certificate-authority-data: %s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
users:
- name: u
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: /usr/local/bin/node-identity, args: [--audience, site3], interactiveMode: Never}
`, base64.StdEncoding.EncodeToString([]byte(ca)))
	site := func(retry string) {
		must(t, n.Site(map[string]string{"site.hcl": `
cluster {
  servers        = ["https://10.0.0.11:6443"]
  ca_cert_hashes = ["` + pin + `"]
  retry          = "` + retry + `"
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "label" "x" { labels = { "example.com/pool" = "a" } }
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
}
stage "restart" "kubelet" {
  verify { settle = "1s" }
}
`}))
	}
	// The user who runs it is in a file, and the secret of its input must not be in its own output.
	says := func(body string) {
		must(
			t,
			n.Write(
				"/usr/local/bin/node-identity",
				"#!/bin/sh\necho \"$(cat /proc/$PPID/comm) $*\" >>/run/asked\n"+body,
				0o755,
			),
		)
	}
	credential := func(token string) string {
		return fmt.Sprintf(
			"echo %s >&2\ncat <<'END'\n{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": "+
				"\"ExecCredential\", \"status\": {\"token\": %q}}\nEND\n",
			token,
			token,
		)
	}
	asking := func() string {
		text, err := n.Read("/run/asked")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return text
	}
	const secret = "kept1secretkept1"
	refused := func(want int, patience time.Duration, words ...string) {
		t.Helper()
		began := time.Now()
		r := prelet(t, n, want, "run")
		if took := time.Since(began); took > patience {
			t.Errorf("it took %s; want at most %s", took, patience)
		}
		flat := strings.Join(strings.Fields(r.String()), " ")
		for _, w := range words {
			if !strings.Contains(flat, w) {
				t.Errorf("the message does not say %q:\n%s", w, r)
			}
		}
		if strings.Contains(flat, secret) {
			t.Errorf("what the plugin said is printed:\n%s", r)
		}
		for _, dir := range []string{"/run/prelet", "/var/lib/prelet", "/etc/kubernetes", "/etc/default", "/var/lib/kubelet", "/var/log"} {
			for _, p := range holding(t, n.Root()+dir, secret) {
				t.Errorf("%s holds what the plugin said", strings.TrimPrefix(p, n.Root()))
			}
		}
		if _, err := n.Read("/var/lib/kubelet/config.yaml"); err == nil {
			t.Error("something was written")
		}
		t.Logf("%s", r.Err)
	}

	site("30s")
	refused(11, 25*time.Second, "the cluster block names no token", "/etc/kubernetes/bootstrap-kubelet.conf")
	must(t, n.Write("/etc/kubernetes/bootstrap-kubelet.conf", conf, 0o600))
	refused(
		denied,
		25*time.Second,
		"the bootstrap kubeconfig provides no credential",
		"/usr/local/bin/node-identity cannot be run",
		"no such file",
	)
	site("2s")
	says("echo " + secret + "\necho " + secret + " >&2\n")
	refused(denied, 25*time.Second, "/usr/local/bin/node-identity returns something other than an ExecCredential")
	says("echo '{\"kind\": \"" + secret + "\", \"apiVersion\": \"" + secret + "\"}'\n")
	refused(
		denied,
		25*time.Second,
		"returns something other than an ExecCredential of client.authentication.k8s.io/v1",
	)
	says("echo " + secret + " >&2\nexit 7\n")
	refused(denied, 25*time.Second, "/usr/local/bin/node-identity fails: exit status 7")
	// What it started hangs too, and holds its standard output.
	says("echo " + secret + "\nsleep 3600 &\nsleep 3600\n")
	refused(denied, 25*time.Second, "/usr/local/bin/node-identity did not respond in time")
	if r, err := n.Run(t.Context(), "pgrep", "-f", "^sleep 3600$"); err != nil || r.Out != "" {
		t.Errorf("processes of the plugin are left: got %q, %v; want no error and empty Out", r, err)
	}
	says(credential(c.Token[:7] + secret))
	refused(
		denied,
		25*time.Second,
		"401",
		"The credential of the bootstrap kubeconfig is expired or of another cluster",
	)
	if got := asking(); strings.Contains(got, "kubelet ") || !strings.Contains(got, "prelet --audience site3\n") {
		t.Errorf("the plugin was run by; want no \"kubelet \" in it:\n%s", got)
	}

	must(t, n.Write("/run/asked", "", 0o644))
	site("30s")
	says(credential(c.Token))
	_, before := asked(t, c, 0)
	if r := prelet(t, n, 0, "run"); !strings.Contains(r.Out, "healthy") {
		t.Errorf("got %s; want text with \"healthy\"", r)
	}
	node, err := c.Ready(t.Context(), "n1")
	must(t, err)
	if node.Labels["example.com/pool"] != "a" {
		t.Errorf("labels %v; want Labels[example.com/pool] \"a\"", node.Labels)
	}
	user := "system:bootstrap:" + c.Token[:6]
	got, now := asked(t, c, before)
	if want := user + " /api/v1/namespaces/kube-system/configmaps/kubelet-config 200"; len(got) < 3 || got[2] != want {
		t.Errorf("prelet asked %q, want %q third", got, want)
	}
	joins, err := c.Requests("kubelet")
	must(t, err)
	signed := false
	for _, r := range joins {
		signed = signed ||
			r.Verb == "create" && strings.HasSuffix(r.URI, "/certificatesigningrequests") && r.User.Username == user &&
				r.Response.Code == 201
	}
	if !signed {
		t.Errorf("no certificate was asked for as %s: got %+v; want signed", user, joins)
	}
	if got := asking(); got != "prelet --audience site3\nkubelet --audience site3\n" {
		t.Errorf("the plugin was run by:\n%s", got)
	}
	if text, err := n.Read("/etc/kubernetes/bootstrap-kubelet.conf"); err != nil || text != conf {
		t.Errorf("the image's own file is %q, %v; want no error and text %q", text, err, conf)
	}
	prelet(t, n, 0, "run")
	if got, _ := asked(t, c, now); len(got) == 0 || !strings.HasPrefix(got[len(got)-1], "system:node:n1 ") {
		t.Errorf("a node that has joined asks %q; want at least one and prefix \"system:node:n1 \"", got)
	}
	if got := asking(); strings.Count(got, "\n") != 2 {
		t.Errorf("a node that has joined ran the plugin again; want Count 2:\n%s", got)
	}
	t.Logf("prelet asked %q; the plugin was run by %q", got, asking())
}

// holding returns the files below a folder that contain a text; links and other kinds of files are left out.
func holding(t *testing.T, dir, text string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // a folder that is not there, a socket
		}
		b, err := os.ReadFile(p)
		if err == nil && strings.Contains(string(b), text) {
			out = append(out, p)
		}
		return nil
	})
	must(t, err)
	return out
}

package kube

import (
	"bytes"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const stormVariable = "PRELET_KUBE_STORM" // how many boots; empty: none

// TestStorm boots many nodes in the same instant against an API server that serves few requests at once and dies in the middle:
// half of them for the first time, each with a token of its own, and half that have joined, each with its own certificate.
func TestStorm(t *testing.T) {
	boots, err := strconv.Atoi(os.Getenv(stormVariable))
	if err != nil {
		t.Skip("this boots a thousand nodes: make storm")
	}
	c := start(t, Options{Audit: true, APIServer: []string{"--max-requests-inflight=20", "--max-mutating-requests-inflight=10"}})
	type node struct {
		Name       string `json:"name"`
		Token      string `json:"token,omitempty"`
		Kubeconfig string `json:"kubeconfig,omitempty"`
	}
	nodes := make([]node, boots)
	ca := authorityOf(t, c)
	server := fmt.Sprintf("https://127.0.0.1:%d", c.Port)
	var made sync.WaitGroup
	failures := make(chan error, boots)
	turns := make(chan struct{}, 16)
	for i := range nodes {
		nodes[i].Name = fmt.Sprintf("storm-%d", i)
		if i%2 == 1 {
			nodes[i].Kubeconfig = nodeKubeconfig(t, ca, server, nodes[i].Name)
			continue
		}
		id, secret := fmt.Sprintf("s%05d", i), fmt.Sprintf("secretofthis%04d", i)
		nodes[i].Token = id + "." + secret
		made.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			failures <- makeToken(t, c, id, secret)
		})
	}
	made.Wait()
	close(failures)
	for err := range failures {
		must(t, err)
	}
	for i := range nodes {
		if nodes[i].Token != "" {
			must(t, c.Signed(t.Context(), nodes[i].Token))
		}
	}
	pin, err := c.Pin()
	must(t, err)
	// No stage looks at hardware: a thousand machines have a thousand processors for that, and the one here shall have its time for
	// what they share. The budget is one for this machine, too, on which the API server and all who ask it take turns.
	site := `
prelet { deadline = "6m" }
cluster {
  retry          = "5m"
  servers        = ["` + server + `"]
  ca_cert_hashes = ["` + pin + `"]
  token          = credential("bootstrap-token")
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "label" "node" { labels = { "example.com/pool" = "a" } }
stage "write" "kubelet" {}
stage "restart" "kubelet" {}
`
	storm := func(nodes []node, flags ...string) (*exec.Cmd, *bytes.Buffer) {
		text, err := json.Marshal(map[string]any{"site": site, "boots": nodes})
		must(t, err)
		file := filepath.Join(t.TempDir(), "boots.json")
		must(t, os.WriteFile(file, text, 0o600))
		cmd := exec.CommandContext(t.Context(), "../../bin/bench/storm", append([]string{"-boots", file, "-dir", t.TempDir()}, flags...)...)
		var stdout bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, new(bytes.Buffer)
		return cmd, &stdout
	}

	// In a calm, what one boot costs a cluster.
	before, err := c.Requests("prelet")
	must(t, err)
	some := nodes[:min(boots, 40)]
	calm, _ := storm(some, "-together", "2")
	must(t, calm.Run())
	quiet, err := c.Requests("prelet")
	must(t, err)
	if got, want := len(quiet)-len(before), 3*len(some); got != want {
		t.Errorf("%d boots one after the other: %d requests, want %d: cluster-info twice, and the configuration", len(some), got, want)
	}

	before = quiet
	cmd, stdout := storm(nodes)
	stderr := cmd.Stderr.(*bytes.Buffer)
	must(t, cmd.Start())
	down := time.Duration(0)
	must(t, within(t.Context(), 2*time.Minute, "a third of them have been served", func() string {
		all, err := c.Requests("prelet")
		if err != nil {
			return err.Error()
		}
		if got := served(all[len(before):], "kubelet-config"); got < boots/3 {
			return fmt.Sprintf("%d of %d", got, boots)
		}
		return ""
	}))
	began := time.Now()
	c.StopAPIServer()
	time.Sleep(time.Second)
	must(t, c.StartAPIServer(t.Context()))
	down = time.Since(began)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var r struct {
		Boots, Failed, Retried, Retries, Early, Together, Herd int
		Failures                                               []string
		Seconds                                                float64
		P50                                                    float64 `json:"p50_s"`
		P90                                                    float64 `json:"p90_s"`
		Max                                                    float64 `json:"max_s"`
		Most                                                   int     `json:"most_retries"`
		Causes                                                 map[string]int
	}
	must(t, json.Unmarshal(stdout.Bytes(), &r))
	all, err := c.Requests("prelet")
	must(t, err)
	all = all[len(before):]
	turned, given := 0, 0 // away, and with what they asked for
	for _, q := range all {
		switch {
		case q.Response.Code != 200:
			turned++
		case q.URI != "/readyz":
			given++
		}
	}
	lost := 0 // answers that did not arrive
	for _, cause := range []string{"no whole answer", "before a whole answer", "broken pipe", "connection reset", "no answer before the deadline", "trickles"} {
		for why, n := range r.Causes {
			if strings.Contains(why, cause) {
				lost += n
			}
		}
	}
	t.Logf("%d boots at once, the API server away for %.1f s: all done after %.1f s (median %.1f, 90%% %.1f, last %.1f)", r.Boots, down.Seconds(), r.Seconds, r.P50, r.P90, r.Max)
	t.Logf("%d requests were given what they asked for, %.2f a boot; %d were turned away, %.2f a boot; %d answers were lost; %d boots asked again, %d times in all, %d at most; because of %v",
		given, float64(given)/float64(boots), turned, float64(turned)/float64(boots), lost, r.Retried, r.Retries, r.Most, r.Causes)
	t.Logf("at most %d retries in the same 10 ms, where it would be %d without chance; %d before the server wanted them", r.Together, r.Herd, r.Early)
	if r.Failed != 0 || r.Boots != boots {
		t.Errorf("%d of %d boots failed: %q", r.Failed, r.Boots, r.Failures)
	}
	if r.Early != 0 {
		t.Errorf("%d retries came before the server wanted them", r.Early)
	}
	if got := served(all, "kubelet-config"); got > boots+r.Retries {
		t.Errorf("%d boots were given the configuration %d times", boots, got)
	}
	// What was given once is not asked for again, unless the answer was lost.
	if most := 3*boots + lost; given > most {
		t.Errorf("%d requests were given what they asked for, more than three a boot and %d that were lost", given, lost)
	}
	// A boot needs three. A retry asks again for what failed and for nothing else; only a refusal is followed by /readyz, and where that
	// says yes by the same once more. 3 and not 2: the server may have died between a fetch and its repetition.
	if most := 3*boots + 3*r.Retries; len(all) > most {
		t.Errorf("%d requests, more than %d", len(all), most)
	}
}

func served(all []Request, object string) (n int) {
	for _, r := range all {
		if r.Response.Code == 200 && strings.HasSuffix(r.URI, "/"+object) {
			n++
		}
	}
	return n
}

// nodeKubeconfig is the kubelet.conf of a node that has joined.
func nodeKubeconfig(t *testing.T, ca authority, server, name string) string {
	t.Helper()
	cert, key := pair(t, ca.issue(t, pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}}, time.Now().Add(-time.Hour)))
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"contexts": []any{map[string]any{"name": "x", "context": map[string]any{"cluster": "c", "user": "u"}}},
		"clusters": []any{map[string]any{"name": "c", "cluster": map[string]any{"server": server, "certificate-authority-data": []byte(ca.pem())}}},
		"users":    []any{map[string]any{"name": "u", "user": map[string]any{"client-certificate-data": []byte(cert), "client-key-data": []byte(key)}}}})
	must(t, err)
	return string(text)
}

// makeToken makes a bootstrap token as kubeadm would, a thousand of them in less than a minute.
func makeToken(t *testing.T, c *Cluster, id, secret string) error {
	_, err := c.Client.CoreV1().Secrets("kube-system").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": id, "token-secret": secret, "usage-bootstrap-signing": "true", "usage-bootstrap-authentication": "true",
			"expiration": time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token"},
	}, metav1.CreateOptions{})
	return err
}

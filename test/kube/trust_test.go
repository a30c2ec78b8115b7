package kube

import (
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	untrusted   = 21
	denied      = 22
	unreachable = 20
)

// observer is a node that only looks at a cluster: prelet plans there, and no kubelet runs.
type observer struct {
	*Node
	t *testing.T
	c *Cluster
}

func newObserver(t *testing.T, c *Cluster) observer {
	t.Helper()
	n, err := c.NewNode(t.Context(), NodeOptions{Name: "n1", NoKubelet: true, Loopback: []string{"10.0.0.11", "10.0.0.12"}})
	must(t, err)
	t.Cleanup(n.Stop)
	must(t, n.Credential("bootstrap-token", c.Token))
	return observer{n, t, c}
}

// cluster makes a site of a cluster block's lines, which reads kubelet-config.
func (o observer) cluster(lines ...string) {
	o.t.Helper()
	must(o.t, o.Site(map[string]string{"site.hcl": "cluster {\n" + strings.Join(lines, "\n") + `
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "write" "kubelet" {}
`}))
}

const token = `token = credential("bootstrap-token")`

func (o observer) pin() string {
	o.t.Helper()
	pin, err := o.c.Pin()
	must(o.t, err)
	return fmt.Sprintf("ca_cert_hashes = [%q]", pin)
}

// plan wants an exit status and words of the message, and returns it with how long it took.
func (o observer) plan(want int, words ...string) (Result, time.Duration) {
	o.t.Helper()
	began := time.Now()
	r := prelet(o.t, o.Node, want, "plan")
	flat := strings.Join(strings.Fields(r.String()), " ")
	for _, w := range words {
		if !strings.Contains(flat, w) {
			o.t.Errorf("the message does not say %q:\n%s", w, r)
		}
	}
	if _, secret, _ := strings.Cut(o.c.Token, "."); strings.Contains(flat, secret) {
		o.t.Errorf("the token is printed:\n%s", r)
	}
	return r, time.Since(began)
}

// asked are prelet's requests at a cluster since the last call, as "user path code".
func asked(t *testing.T, c *Cluster, since int) (out []string, now int) {
	t.Helper()
	all, err := c.Requests("prelet")
	must(t, err)
	for _, r := range all[since:] {
		out = append(out, fmt.Sprintf("%s %s %d", r.User.Username, r.URI, r.Response.Code))
	}
	return out, len(all)
}

func TestTrust(t *testing.T) {
	c := start(t, Options{Audit: true})
	other := start(t, Options{Audit: true, Token: c.Token}) // the same token is good there: what is sent there is lost

	const (
		info   = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
		config = "/api/v1/namespaces/kube-system/configmaps/kubelet-config"
	)
	user := "system:bootstrap:" + c.Token[:6]

	t.Run("pins", func(t *testing.T) {
		o := newObserver(t, c)
		must(t, o.Reach(c, "10.0.0.11:6443"))
		o.cluster(`servers = ["https://10.0.0.11:6443"]`, o.pin(), token)
		_, n := asked(t, c, 0)
		o.plan(0)
		got, _ := asked(t, c, n)
		want := []string{"system:anonymous " + info + " 200", "system:anonymous " + info + " 200", user + " " + config + " 200"}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("asked %q, want %q", got, want)
		}
	})

	t.Run("another cluster", func(t *testing.T) {
		o := newObserver(t, c)
		must(t, o.Reach(other, "10.0.0.11:6443"))
		must(t, o.Reach(c, "10.0.0.12:6443"))
		o.cluster(`servers = ["https://10.0.0.11:6443", "https://10.0.0.12:6443"]`, o.pin(), token)
		_, here := asked(t, c, 0)
		_, there := asked(t, other, 0)
		_, took := o.plan(untrusted, "no pin covers the CA")
		if got, _ := asked(t, other, there); fmt.Sprint(got) != fmt.Sprint([]string{"system:anonymous " + info + " 200"}) {
			t.Errorf("an impostor was asked %q: identity comes before the token", got)
		}
		if got, _ := asked(t, c, here); len(got) != 0 {
			t.Errorf("a failure of trust was followed by the next server: %q", got)
		}
		if took > 10*time.Second {
			t.Errorf("it took %s, and nothing mends it", took)
		}
	})

	t.Run("a stranger with the right CA in his answer", func(t *testing.T) {
		o := newObserver(t, c)
		b := &between{}
		stranger := newAuthority(t, "kubernetes").issue(t, pkix.Name{CommonName: "kube-apiserver"}, time.Now().Add(-time.Hour), "10.0.0.11")
		_, err := o.Door("10.0.0.11:6443", serve(t, stranger, b.handler(t, c)))
		must(t, err)
		o.cluster(`servers = ["https://10.0.0.11:6443"]`, o.pin(), token)
		o.plan(untrusted, "not signed by the cluster's CA")
		if b.anonymous != 1 || b.withToken != 0 {
			t.Errorf("%d anonymous requests and %d with the token, want 1 and 0", b.anonymous, b.withToken)
		}
	})

	t.Run("the second fetch differs", func(t *testing.T) {
		o := newObserver(t, c)
		b := &between{change: func(path string, n int, body string) string {
			if path == info && n == 2 {
				return strings.Replace(body, "https://", "https://x", 1)
			}
			return body
		}}
		cert := authorityOf(t, c).issue(t, pkix.Name{CommonName: "kube-apiserver"}, time.Now().Add(-time.Hour), "10.0.0.11")
		_, err := o.Door("10.0.0.11:6443", serve(t, cert, b.handler(t, c)))
		must(t, err)
		o.cluster(`servers = ["https://10.0.0.11:6443"]`, o.pin(), token)
		o.plan(untrusted, "differs from the first")
		if b.withToken != 0 {
			t.Error("the token was sent")
		}
	})

	t.Run("every CA is pinned", func(t *testing.T) {
		before, err := c.ConfigMap(t.Context(), "kube-public", "cluster-info")
		must(t, err)
		ca, err := c.CA()
		must(t, err)
		second := newAuthority(t, "next year's CA").pem()
		encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
		text := strings.Replace(before["kubeconfig"], encode(ca), encode(ca+second), 1)
		if text == before["kubeconfig"] {
			t.Fatal("cluster-info does not hold the CA as it was made")
		}
		change := func(text string) { // the signer signs it anew
			must(t, c.SetConfigMap(t.Context(), "kube-public", "cluster-info", map[string]string{"kubeconfig": text}))
			must(t, c.Signed(t.Context(), c.Token))
		}
		change(text)
		defer change(before["kubeconfig"])
		o := newObserver(t, c)
		must(t, o.Reach(c, "10.0.0.11:6443"))
		o.cluster(`servers = ["https://10.0.0.11:6443"]`, o.pin(), token)
		o.plan(untrusted, "no pin covers the CA", "next year's CA")
		pin, err := c.Pin()
		must(t, err)
		next, err := PinOf(second)
		must(t, err)
		o.cluster(`servers = ["https://10.0.0.11:6443"]`, fmt.Sprintf("ca_cert_hashes = [%q, %q]", pin, next), token)
		o.plan(0)
	})

	t.Run("servers", func(t *testing.T) {
		o := newObserver(t, c)
		must(t, o.Reach(c, "10.0.0.12:6443"))
		silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and says nothing
		must(t, err)
		defer silent.Close()
		_, err = o.Door("10.0.0.11:7443", silent.Addr().String())
		must(t, err)
		o.cluster(`servers = ["https://10.0.0.11:6443", "https://10.0.0.11:7443", "https://10.0.0.12:6443"]`, o.pin(), token, `retry = "9s"`)
		if _, took := o.plan(0); took > 8*time.Second {
			t.Errorf("a dead and a silent server cost %s of 9 s", took)
		}
		o.cluster(`servers = ["https://10.0.0.11:6443"]`, o.pin(), token, `retry = "2s"`)
		if _, took := o.plan(unreachable, "connection refused"); took > 5*time.Second {
			t.Errorf("gave up after %s, the budget is 2 s", took)
		}
	})

	t.Run("discovery file", func(t *testing.T) {
		o := newObserver(t, c)
		must(t, o.Reach(c, "10.0.0.11:6443"))
		cm, err := c.ConfigMap(t.Context(), "kube-public", "cluster-info")
		must(t, err)
		must(t, o.Write("/etc/kubernetes/discovery.conf", cm["kubeconfig"], 0o644))
		o.cluster(`servers = ["https://10.0.0.11:6443"]`, `discovery_file = "/etc/kubernetes/discovery.conf"`, token)
		_, n := asked(t, c, 0)
		o.plan(0)
		if got, _ := asked(t, c, n); len(got) != 1 || !strings.HasPrefix(got[0], user+" "+config) {
			t.Errorf("asked %q: with a CA at hand a handshake is enough", got)
		}

		web := newAuthority(t, "a public CA")
		files := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(cm["kubeconfig"])) })
		cert := web.issue(t, pkix.Name{CommonName: "files"}, time.Now().Add(-time.Hour), "10.0.0.12")
		_, err = o.Door("10.0.0.12:443", serve(t, cert, files))
		must(t, err)
		o.cluster(`servers = ["https://10.0.0.11:6443"]`, `discovery_file = "https://10.0.0.12/cluster.conf"`, token)
		o.plan(untrusted, "discovery_file")
		must(t, o.Write("/etc/ssl/certs/ca-certificates.crt", web.pem(), 0o644))
		o.plan(0)

		foreign, err := other.ConfigMap(t.Context(), "kube-public", "cluster-info")
		must(t, err)
		must(t, o.Write("/etc/kubernetes/discovery.conf", foreign["kubeconfig"], 0o644))
		o.cluster(`servers = ["https://10.0.0.11:6443"]`, `discovery_file = "/etc/kubernetes/discovery.conf"`, token)
		o.plan(untrusted, "not signed by the cluster's CA")
	})

	t.Run("clock", func(t *testing.T) {
		const wait = 4 * time.Second
		o := newObserver(t, c)
		cert := authorityOf(t, c).issue(t, pkix.Name{CommonName: "kube-apiserver"}, time.Now().Add(wait), "10.0.0.11")
		_, err := o.Door("10.0.0.11:6443", serve(t, cert, (&between{}).handler(t, c)))
		must(t, err)
		o.cluster(`servers = ["https://10.0.0.11:6443"]`, o.pin(), token, `retry = "30s"`)
		var x unix.Timex
		if state, err := unix.Adjtimex(&x); err != nil || state == unix.TIME_ERROR || x.Status&unix.STA_UNSYNC != 0 {
			go func() {
				time.Sleep(wait + time.Second)
				_ = o.Write("/run/systemd/timesync/synchronized", "", 0o644)
			}()
			if _, took := o.plan(0, "waiting for the clock to be set"); took < wait {
				t.Errorf("believed a certificate of the future after %s", took)
			}
			return
		}
		o.plan(untrusted, "is valid from") // this machine's clock is set, so the certificate is wrong
	})
}

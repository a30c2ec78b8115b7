package kube

import (
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	untrusted   = 21
	denied      = 22
	unreachable = 20
)

// candidate is a node that wants to join, whose kubelet has been asked for: what keeps it from joining is refused
// first, and once that is fixed the same machine joins.
type candidate struct {
	*Node
	t *testing.T
	c *Cluster
}

func newCandidate(t *testing.T, c *Cluster) candidate {
	t.Helper()
	_, name, _ := strings.Cut(t.Name(), "/")
	name = strings.ToLower(strings.Map(func(r rune) rune {
		if r == '_' || r == '\'' || r == '/' {
			return '-'
		}
		return r
	}, name))
	n := newNode(t, c, NodeOptions{Name: name, Loopback: []string{"10.0.0.11", "10.0.0.12"}})
	must(t, n.Credential("bootstrap-token", c.Token))
	return candidate{n, t, c}
}

// joins runs prelet, and waits until the real kubelet has joined with what it wrote.
func (o candidate) joins() {
	o.t.Helper()
	if r := prelet(o.t, o.Node, 0, "run"); !strings.Contains(r.Out, "healthy") {
		o.t.Errorf("got %s; want text with \"healthy\"", r)
	}
	o.hasJoined()
}

func (o candidate) hasJoined() {
	o.t.Helper()
	_, err := o.c.Ready(o.t.Context(), o.Name)
	must(o.t, err)
	conf, err := o.Read("/etc/kubernetes/kubelet.conf")
	must(o.t, err)
	if !strings.Contains(conf, "server: https://10.0.0.11:6443\n") {
		o.t.Errorf("the kubelet asks another server than the site's first:\n%s", conf)
	}
}

// untouched wants nothing written, and no kubelet.
func (o candidate) untouched() {
	o.t.Helper()
	for _, p := range []string{"/var/lib/kubelet/config.yaml", "/etc/kubernetes/bootstrap-kubelet.conf", "/etc/kubernetes/pki/ca.crt", "/etc/default/kubelet"} {
		if _, err := o.Read(p); err == nil {
			o.t.Errorf("got %s was written; want an error", p)
		}
	}
	if s, err := o.Service(o.t.Context()); err != nil || s.PID != 0 {
		o.t.Errorf("the kubelet is %+v, %v; want no error and PID 0", s, err)
	}
}

// refused runs prelet, wants an exit status, words of the message, and nothing written; and returns how long it took.
func (o candidate) refused(want int, words ...string) (Result, time.Duration) {
	o.t.Helper()
	began := time.Now()
	r := prelet(o.t, o.Node, want, "run")
	took := time.Since(began)
	o.says(r, words...)
	o.untouched()
	return r, took
}

// moved opens a door to the cluster where there was another one.
func (o candidate) moved(d *Door) {
	o.t.Helper()
	d.Shut()
	must(o.t, o.Reach(o.c, d.address))
}

// cluster makes a site of a cluster block's lines, which reads kubelet-config.
func (o candidate) cluster(lines ...string) {
	o.t.Helper()
	must(o.t, o.Site(map[string]string{"site.hcl": "cluster {\n" + strings.Join(lines, "\n") + `
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "write" "kubelet" {}
stage "restart" "kubelet" {
  verify { settle = "1s" }
}
`}))
}

const token = `token = credential("bootstrap-token")`

func (o candidate) pin() string {
	o.t.Helper()
	pin, err := o.c.Pin()
	must(o.t, err)
	return fmt.Sprintf("ca_cert_hashes = [%q]", pin)
}

// plan is one that succeeds.
func (o candidate) plan() {
	o.t.Helper()
	o.says(prelet(o.t, o.Node, 0, "plan"))
}

// says expects words of a message, wherever its lines end, and no part of the token's secret.
func (o candidate) says(r Result, words ...string) {
	o.t.Helper()
	flat := strings.Join(strings.Fields(r.String()), " ")
	for _, w := range words {
		if !strings.Contains(flat, w) {
			o.t.Errorf("the message does not say %q:\n%s", w, r)
		}
	}
	if _, secret, _ := strings.Cut(o.c.Token, "."); strings.Contains(flat, secret) {
		o.t.Errorf("the token is printed:\n%s", r)
	}
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
	t.Parallel()
	c := start(t, Options{Audit: true})
	other := start(t, Options{Audit: true, Token: c.Token}) // the same token is good there: what is sent there is lost

	const (
		info   = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
		config = "/api/v1/namespaces/kube-system/configmaps/kubelet-config"
	)
	user := "system:bootstrap:" + c.Token[:6]

	t.Run("pins", func(t *testing.T) {
		o := newCandidate(t, c)
		must(t, o.Reach(c, "10.0.0.11:6443"))
		o.cluster(`servers = ["https://10.0.0.11:6443"]`, o.pin(), token)
		_, n := asked(t, c, 0)
		o.plan()
		got, _ := asked(t, c, n)
		want := []string{
			"system:anonymous " + info + " 200",
			"system:anonymous " + info + " 200",
			user + " " + config + " 200",
			user + " /api/v1/nodes/pins 404",
		} // whether another machine has the name
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("asked %q, want %q", got, want)
		}
		pin, err := PinOf(newAuthority(t, "another cluster's").pem())
		must(t, err)
		o.cluster(`servers = ["https://10.0.0.11:6443"]`, fmt.Sprintf("ca_cert_hashes = [%q]", pin), token)
		o.refused(untrusted, "no pin covers the CA", "--print-join-command")
		o.cluster(`servers = ["https://10.0.0.11:6443"]`, o.pin(), token)
		o.joins()
	})

	t.Run("the answer names another server", func(t *testing.T) {
		before, err := c.ConfigMap(t.Context(), "kube-public", "cluster-info")
		must(t, err)
		text := strings.Replace(
			before["kubeconfig"],
			fmt.Sprintf("https://127.0.0.1:%d", c.Port),
			"https://10.0.0.12:6443",
			1,
		)
		if text == before["kubeconfig"] {
			t.Fatal("cluster-info does not name the server as it was made")
		}
		must(
			t,
			c.SetConfigMap(t.Context(), "kube-public", "cluster-info", map[string]string{"kubeconfig": text}),
		) // and the signer signs it
		must(t, c.Signed(t.Context(), c.Token))
		defer func() {
			must(
				t,
				c.SetConfigMap(
					t.Context(),
					"kube-public",
					"cluster-info",
					map[string]string{"kubeconfig": before["kubeconfig"]},
				),
			)
			must(t, c.Signed(t.Context(), c.Token))
		}()
		o := newCandidate(t, c)
		must(t, o.Reach(c, "10.0.0.11:6443"))
		evil, err := o.Door("10.0.0.12:6443", fmt.Sprintf("127.0.0.1:%d", other.Port))
		must(t, err)
		o.cluster(`servers = ["https://10.0.0.11:6443"]`, o.pin(), token)
		o.joins()
		if n := evil.Opened.Load(); n != 0 {
			t.Errorf("got %d connections to a server that no site names; want 0", n)
		}
	})

	t.Run("another cluster", func(t *testing.T) {
		o := newCandidate(t, c)
		impostor, err := o.Door("10.0.0.11:6443", fmt.Sprintf("127.0.0.1:%d", other.Port))
		must(t, err)
		must(t, o.Reach(c, "10.0.0.12:6443"))
		o.cluster(`servers = ["https://10.0.0.11:6443", "https://10.0.0.12:6443"]`, o.pin(), token)
		anonymously := fmt.Sprint([]string{"system:anonymous " + info + " 200"})
		_, there := asked(t, other, 0)
		o.plan() // the impostor is left out, and the next server is asked
		got, there := asked(t, other, there)
		if fmt.Sprint(got) != anonymously {
			t.Errorf("an impostor was asked %q, want %q: identity comes before the token", got, anonymously)
		}

		o.cluster(`servers = ["https://10.0.0.11:6443"]`, o.pin(), token)
		_, here := asked(t, c, 0)
		_, took := o.refused(untrusted, "no pin covers the CA")
		if got, _ := asked(t, other, there); fmt.Sprint(got) != anonymously {
			t.Errorf("an impostor was asked %q, want %q: identity comes before the token", got, anonymously)
		}
		if got, _ := asked(t, c, here); len(got) != 0 {
			t.Errorf("a server that the site does not name was asked %q; want none", got)
		}
		if took > 30*time.Second { // of 2 minutes
			t.Errorf("it took %s, and nothing fixes it; want at most 30s", took)
		}
		o.moved(impostor)
		o.joins()
	})

	t.Run("a stranger with the right CA in his answer", func(t *testing.T) {
		o := newCandidate(t, c)
		b := &between{}
		stranger := newAuthority(
			t,
			"kubernetes",
		).issue(t, pkix.Name{CommonName: "kube-apiserver"}, time.Now().Add(-time.Hour), "10.0.0.11")
		door, err := o.Door("10.0.0.11:6443", serve(t, stranger, b.handler(t, c)))
		must(t, err)
		o.cluster(`servers = ["https://10.0.0.11:6443"]`, o.pin(), token)
		o.refused(untrusted, "not signed by the cluster's CA")
		if b.anonymous != 1 || b.withToken != 0 {
			t.Errorf("%d anonymous requests and %d with the token, want 1 and 0", b.anonymous, b.withToken)
		}
		o.moved(door)
		o.joins()
	})

	t.Run("the second fetch differs", func(t *testing.T) {
		o := newCandidate(t, c)
		b := &between{change: func(path string, n int, body string) string {
			if path == info && n == 2 {
				return strings.Replace(body, "https://", "https://x", 1)
			}
			return body
		}}
		cert := authorityOf(
			t,
			c,
		).issue(t, pkix.Name{CommonName: "kube-apiserver"}, time.Now().Add(-time.Hour), "10.0.0.11")
		door, err := o.Door("10.0.0.11:6443", serve(t, cert, b.handler(t, c)))
		must(t, err)
		o.cluster(`servers = ["https://10.0.0.11:6443"]`, o.pin(), token)
		o.refused(untrusted, "differs from the first")
		if b.withToken != 0 {
			t.Error("the token was sent")
		}
		o.moved(door)
		o.joins()
	})

	t.Run("only pinned CAs", func(t *testing.T) {
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
		change := func(text string) { // the signer signs it again
			must(t, c.SetConfigMap(t.Context(), "kube-public", "cluster-info", map[string]string{"kubeconfig": text}))
			must(t, c.Signed(t.Context(), c.Token))
		}
		change(text)
		defer change(before["kubeconfig"])
		o := newCandidate(t, c)
		must(t, o.Reach(c, "10.0.0.11:6443"))
		o.cluster(`servers = ["https://10.0.0.11:6443"]`, o.pin(), token)
		r := prelet(t, o.Node, 0, "plan")
		o.says(r, "next year's CA", "which is left out")
		r = prelet(t, o.Node, 0, "eval", "stage.fetch-ca.cluster.pem", "-o", "json")
		for text, want := range map[string]bool{ca: true, second: false} {
			if line := strings.Split(text, "\n")[1]; strings.Contains(r.Out, line) != want {
				t.Errorf("the CA with %q: got %s; want it there: %v", line, r, want)
			}
		}
		pin, err := c.Pin()
		must(t, err)
		next, err := PinOf(second)
		must(t, err)
		o.cluster(`servers = ["https://10.0.0.11:6443"]`, fmt.Sprintf("ca_cert_hashes = [%q, %q]", pin, next), token)
		o.joins()
	})

	t.Run("servers", func(t *testing.T) {
		o := newCandidate(t, c)
		o.cluster(`servers = ["https://10.0.0.11:6443"]`, o.pin(), token, `retry = "2s"`)
		if _, took := o.refused(unreachable, "connection refused"); took > 20*time.Second { // it is 2 minutes otherwise
			t.Errorf("gave up after %s, the budget is 2 s; want at most 20s", took)
		}
		must(t, o.Reach(c, "10.0.0.12:6443"))
		silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and says nothing
		must(t, err)
		defer silent.Close()
		_, err = o.Door("10.0.0.11:7443", silent.Addr().String())
		must(t, err)
		o.cluster(
			`servers = ["https://10.0.0.11:6443", "https://10.0.0.11:7443", "https://10.0.0.12:6443"]`,
			o.pin(),
			token,
			`retry = "9s"`,
		)
		o.plan()                              // a dead and a silent server, which would take all of the 9 s alone
		must(t, o.Reach(c, "10.0.0.11:6443")) // the kubelet has one server, and tries no other
		o.joins()
	})

	t.Run("discovery file", func(t *testing.T) {
		o := newCandidate(t, c)
		must(t, o.Reach(c, "10.0.0.11:6443"))
		cm, err := c.ConfigMap(t.Context(), "kube-public", "cluster-info")
		must(t, err)
		must(t, o.Write("/etc/kubernetes/discovery.conf", cm["kubeconfig"], 0o644))
		o.cluster(`servers = ["https://10.0.0.11:6443"]`, `discovery_file = "/etc/kubernetes/discovery.conf"`, token)
		_, n := asked(t, c, 0)
		o.plan()
		got, _ := asked(t, c, n)
		want := []string{
			"system:anonymous /readyz 200",
			user + " " + config + " 200",
			user + " /api/v1/nodes/discovery-file 404",
		}
		if !slices.Equal(got, want) {
			t.Errorf("asked %q, want %q: the CA is known", got, want)
		}

		web := newAuthority(t, "a public CA")
		files := http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(cm["kubeconfig"])) },
		)
		cert := web.issue(t, pkix.Name{CommonName: "files"}, time.Now().Add(-time.Hour), "10.0.0.12")
		_, err = o.Door("10.0.0.12:443", serve(t, cert, files))
		must(t, err)
		o.cluster(`servers = ["https://10.0.0.11:6443"]`, `discovery_file = "https://10.0.0.12/cluster.conf"`, token)
		o.refused(untrusted, "discovery_file")
		must(t, o.Write("/etc/ssl/certs/ca-certificates.crt", web.pem(), 0o644))
		o.plan()

		foreign, err := other.ConfigMap(t.Context(), "kube-public", "cluster-info")
		must(t, err)
		must(t, o.Write("/etc/kubernetes/discovery.conf", foreign["kubeconfig"], 0o644))
		o.cluster(`servers = ["https://10.0.0.11:6443"]`, `discovery_file = "/etc/kubernetes/discovery.conf"`, token)
		o.refused(untrusted, "not signed by the cluster's CA")
		o.cluster(`servers = ["https://10.0.0.11:6443"]`, `discovery_file = "https://10.0.0.12/cluster.conf"`, token)
		o.joins()
	})
}

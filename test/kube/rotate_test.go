package kube

import (
	"crypto/x509/pkix"
	"encoding/base64"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// caData is the CAs in a kubeconfig.
var caData = regexp.MustCompile(`certificate-authority-data: \S+`)

func withCA(kubeconfig, ca string) string {
	return caData.ReplaceAllString(kubeconfig,
		"certificate-authority-data: "+base64.StdEncoding.EncodeToString([]byte(ca)))
}

// announce puts CAs into cluster-info. Nodes that have joined need no signature.
func (c *Cluster) announce(t *testing.T, ca string) {
	t.Helper()
	info, err := c.ConfigMap(t.Context(), "kube-public", "cluster-info")
	must(t, err)
	text := map[string]string{"kubeconfig": withCA(info["kubeconfig"], ca)}
	must(t, c.SetConfigMap(t.Context(), "kube-public", "cluster-info", text))
}

// present restarts the API server with a certificate of another CA, and takes client certificates of both.
func (c *Cluster) present(t *testing.T, next authority) {
	t.Helper()
	old, err := c.CA()
	must(t, err)
	both := c.Path("pki/both.crt")
	must(t, os.WriteFile(both, []byte(old+next.pem()), 0o600))
	names := strings.Split(certifiedNames, ", ")
	cert, key := pair(t, next.issue(t, pkix.Name{CommonName: "kube-apiserver"}, time.Now().Add(-time.Hour), names...))
	must(t, os.WriteFile(c.Path("pki/next.crt"), []byte(cert), 0o600))
	must(t, os.WriteFile(c.Path("pki/next.key"), []byte(key), 0o600))
	for _, file := range []string{"super-admin.conf", "admin.conf", "controller-manager.conf"} {
		text, err := os.ReadFile(c.Path(file))
		must(t, err)
		must(t, os.WriteFile(c.Path(file), []byte(withCA(string(text), old+next.pem())), 0o600))
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.Path("super-admin.conf"))
	must(t, err)
	c.Client, err = kubernetes.NewForConfig(config)
	must(t, err)
	c.StopAPIServer()
	must(t, c.StartAPIServer(t.Context(), "--client-ca-file", both,
		"--tls-cert-file", c.Path("pki/next.crt"), "--tls-private-key-file", c.Path("pki/next.key")))
}

// beats waits until the kubelet has renewed its lease from now on.
func (m member) beats() {
	m.t.Helper()
	now := time.Now()
	must(m.t, waitFor(m.t.Context(), time.Minute, "the kubelet of "+m.Name+" renews its lease", func() string {
		lease, err := m.c.Client.CoordinationV1().Leases("kube-node-lease").Get(m.t.Context(), m.Name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err.Error()
		case lease.Spec.RenewTime.Before(&metav1.MicroTime{Time: now}):
			return "the last is of " + lease.Spec.RenewTime.String()
		}
		return ""
	}))
}

// trusts wants exactly these CAs in ca.crt and in kubelet.conf, whose other lines are as they were.
func (m member) trusts(conf, ca string) {
	m.t.Helper()
	got, err := m.Read("/etc/kubernetes/pki/ca.crt")
	must(m.t, err)
	if got != ca {
		m.t.Errorf("ca.crt is\n%swant\n%s", got, ca)
	}
	got, err = m.Read("/etc/kubernetes/kubelet.conf")
	must(m.t, err)
	if want := withCA(conf, ca); got != want {
		m.t.Errorf("kubelet.conf is\n%swant\n%s", got, want)
	}
}

// settled wants that a further run changes nothing.
func (m member) settled() {
	m.t.Helper()
	if r := m.run(0); !strings.Contains(r.Out, "No changes") {
		m.t.Errorf("got %s; want text with \"No changes\"", r)
	}
}

// keepsOlderOff wants that 0.1.0, which would put the old CA back, refuses the newest generation.
func (m member) keepsOlderOff() {
	m.t.Helper()
	newest := 0
	files, err := os.ReadDir(m.Root() + "/var/lib/prelet/generations")
	must(m.t, err)
	for _, f := range files {
		if n, err := strconv.Atoi(f.Name()); err == nil {
			newest = max(newest, n)
		}
	}

	text, err := m.Read("/var/lib/prelet/generations/" + strconv.Itoa(newest))
	must(m.t, err)
	if !strings.Contains(text, `"replaces_ca":true`) {
		m.t.Errorf("generation %d: its stored plan does not say that the CAs are replaced", newest)
	}
}

// TestRotateCA rotates the CA of a cluster as docs/explanation/trust.md describes it, with a node that runs and one
// that is off from the first step to the last.
func TestRotateCA(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	m := newMember(t, c, NodeOptions{}, quick)
	off := newMember(t, c, NodeOptions{Name: "n2"}, quick)
	for _, x := range []member{m, off} {
		x.run(0) // the token is gone, and the node is joined
	}
	must(t, off.StopKubelet(t.Context()))

	old, err := c.CA()
	must(t, err)
	next := newAuthority(t, "next")
	nextPin, err := PinOf(next.pem())
	must(t, err)
	oldPin := m.pin
	conf, err := m.Read("/etc/kubernetes/kubelet.conf")
	must(t, err)
	both := old + next.pem()

	set := func(x member, pins ...string) {
		t.Helper()
		x.pin = strings.Join(pins, `", "`)
		x.site(quick)
	}
	plan := func(x member, words ...string) {
		t.Helper()
		r := prelet(t, x.Node, 0, "plan")
		flat := strings.Join(strings.Fields(r.String()), " ")
		for _, w := range words {
			if !strings.Contains(flat, w) {
				t.Errorf("the plan does not say %q:\n%s", w, r)
			}
		}
	}

	// 1. The pin of a CA that the cluster does not have yet.
	set(m, oldPin, nextPin)
	plan(m, "A pin is unused", nextPin)
	m.settled()
	m.trusts(conf, old)

	// 2. Both CAs in cluster-info.
	c.announce(t, next.pem()+old)
	plan(m, "Added: CN=next with key "+nextPin+", valid until "+next.cert.NotAfter.UTC().Format(time.RFC3339))
	m.run(0)
	m.trusts(conf, sorted(c, t, next))
	m.settled()
	c.announce(t, both)
	m.settled()
	m.beats()

	// The old one cannot be removed while the API server presents it.
	set(m, nextPin)
	if r := m.run(0); !strings.Contains(strings.Join(strings.Fields(r.String()), " "), "not signed by the cluster's CA") {
		t.Errorf("got %s; want that the server is not trusted", r)
	}
	m.trusts(conf, sorted(c, t, next))
	set(m, oldPin, nextPin)
	m.settled()

	// 3. The API server presents a certificate of the new CA.
	c.present(t, next)
	m.beats()
	m.settled()

	// 4. Only the new CA.
	c.announce(t, next.pem())
	set(m, nextPin)
	plan(m, "Removed: CN=kubernetes with key "+oldPin)
	m.run(0)
	m.trusts(conf, next.pem())
	m.beats()
	m.settled()

	// Other changes of the site leave the CAs of kubelet.conf as they are.
	for _, value := range []string{"a", "b", "c"} {
		m.pin = nextPin
		m.site(quick + "stage \"label\" \"more\" { labels = { \"example.com/more\" = \"" + value + "\" } }\n")
		m.run(0)
		m.trusts(conf, next.pem())
		m.settled()
		m.keepsOlderOff()
	}

	// The node that was off in all steps, with the site of the last one, and without a token.
	must(t, off.Credential("bootstrap-token", ""))
	set(off, nextPin)
	off.run(0)
	must(t, off.Systemctl(t.Context(), "start"))
	off.trusts(conf, next.pem())
	off.beats()
	off.run(0) // the verdict
	off.settled()
}

// sorted is both CAs as prelet writes them, the older one first.
func sorted(c *Cluster, t *testing.T, next authority) string {
	t.Helper()
	old, err := c.CA()
	must(t, err)
	if next.cert.NotBefore.Before(authorityOf(t, c).cert.NotBefore) {
		return next.pem() + old
	}
	return old + next.pem()
}

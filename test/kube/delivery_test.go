package kube

import (
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// waves are nodes that pull their site from one registry, by the tag of their wave.
type waves struct {
	t     *testing.T
	c     *Cluster
	dir   string           // the key, and the layout that the registry serves
	nodes map[string]*Node // by name
}

const (
	siteRegistry   = "10.0.0.12:5000"
	siteRepository = siteRegistry + "/sites/gpu"
)

// TestDelivery takes three real kubelets through the life of a site that nodes pull: each is pulled, planned, judged and
// taken back by the units of the timer, in waves of one node and two.
func TestDelivery(t *testing.T) {
	t.Parallel()
	w := newWaves(t, map[string]string{"n1": "one", "n2": "rest", "n3": "rest"})

	good := w.sign(11, "eventRecordQPS = 21")
	w.push(good, "one", "rest")
	for _, n := range w.nodes {
		in(t, n, "systemctl", "start", "prelet-site.service")
		in(t, n, "prelet", "run")
	}
	w.want("eventRecordQPS", map[string]float64{"n1": 21, "n2": 21, "n3": 21})

	// A wave, and the next one with the same files.
	better := w.sign(12, "eventRecordQPS = 22")
	w.push(better, "one")
	w.check("n1", "n2", "n3")
	w.want("eventRecordQPS", map[string]float64{"n1": 22, "n2": 21, "n3": 21})
	w.push(better, "rest")
	w.check("n1", "n2", "n3")
	w.want("eventRecordQPS", map[string]float64{"n1": 22, "n2": 22, "n3": 22})

	// A bad one, which no plan can see: another program has the port. It goes back, and is not tried again.
	w.push(w.sign(13, "eventRecordQPS = 23\nport = 10301"), "one")
	w.check("n1", "n2", "n3")
	w.want("eventRecordQPS", map[string]float64{"n1": 22, "n2": 22, "n3": 22})
	w.check("n1")
	w.wantWait("n1", "held")
	w.want("eventRecordQPS", map[string]float64{"n1": 22})

	// Back by tag, without a new signature.
	w.push(good, "one")
	w.check("n1", "n2", "n3")
	w.want("eventRecordQPS", map[string]float64{"n1": 21, "n2": 22, "n3": 22})

	// Less room for pods waits until the node is drained. The pod is that of a person.
	create(t, w.c, wavePod)
	must(t, waitFor(t.Context(), time.Minute, "the pod runs", func() string {
		phase, err := w.c.Kubectl(t.Context(), "get", "pod", "web", "-o", "jsonpath={.status.phase}")
		if err != nil || phase != "Running" {
			return fmt.Sprint(phase, err)
		}

		return ""
	}))
	w.push(w.sign(14, "eventRecordQPS = 24\nmaxPods = 50"), "one", "rest")
	for _, step := range []string{"", "cordon n2"} {
		if step != "" {
			w.kubectl(step)
		}
		w.check("n2")
		w.wantWait("n2", "drain")
		w.want("eventRecordQPS", map[string]float64{"n2": 22})
	}
	w.kubectl("drain n2 --ignore-daemonsets --force --grace-period=1 --timeout=1m")
	w.check("n2", "n3")
	w.wantWait("n3", "drain")
	w.want("eventRecordQPS", map[string]float64{"n2": 24, "n3": 22})
	w.want("maxPods", map[string]float64{"n2": 50, "n3": 110})
	w.kubectl("uncordon n2")

	// Withdrawn: after the next version no node takes an older one, whatever the tag has.
	last := w.sign(15, "eventRecordQPS = 25", "--not-below", "15")
	w.push(last, "rest")
	w.check("n3")
	w.want("eventRecordQPS", map[string]float64{"n3": 25})
	w.push(better, "rest")
	if r, err := w.nodes["n3"].Run(t.Context(), "systemctl", "start", "prelet-site.service"); err != nil || r.Exit == 0 {
		t.Errorf("a look at a withdrawn site: got %v, %s; want a failure", err, r)
	}
	w.check("n3")
	w.want("eventRecordQPS", map[string]float64{"n3": 25})
}

// wavePod is a pod that a drain ends.
const wavePod = `
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: default, name: default}
---
apiVersion: v1
kind: Pod
metadata: {namespace: default, name: web}
spec:
  nodeName: n2
  hostNetwork: true
  automountServiceAccountToken: false
  containers: [{name: web, image: "registry.test/web:1"}]
`

// newWaves starts a cluster, a registry and nodes, by name, with the tag of each.
func newWaves(t *testing.T, tags map[string]string) *waves {
	t.Helper()
	w := &waves{t: t, c: start(t, ClusterOptions{}), dir: t.TempDir(), nodes: map[string]*Node{}}
	key := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", w.dir+"/key")
	if out, err := key.CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v: %s", err, out)
	}
	public, err := os.ReadFile(w.dir + "/key.pub")
	must(t, err)
	ca := newAuthority(t, "registries")
	address := serve(t, ca.issue(t, pkix.Name{}, time.Now().Add(-time.Hour), "10.0.0.12"), http.HandlerFunc(w.serveSite))

	for name, tag := range tags {
		n := newNode(t, w.c, NodeOptions{Name: name, Loopback: []string{"10.0.0.12"}}, "10.0.0.11:6443")
		_, err := n.Door(siteRegistry, address)
		must(t, err)
		must(t, n.Write("/etc/credstore/bootstrap-token", w.c.Token+"\n", 0o400))
		must(t, n.Write("/etc/registry.crt", ca.pem(), 0o644))
		must(t, n.Write("/usr/lib/prelet/site-signers", string(public), 0o644))
		must(t, n.Write("/usr/lib/prelet/site/site.hcl", w.imageSite(tag), 0o644))
		w.installUnits(n)
		w.nodes[name] = n
	}

	return w
}

// imageSite is the site of an image: all that is not pulled.
func (w *waves) imageSite(tag string) string {
	pin, err := w.c.Pin()
	must(w.t, err)

	return fmt.Sprintf(`
delivery {
  from    = ["%s:%s"]
  name    = "gpu"
  apply   = true
  ca_file = "/etc/registry.crt"
}
cluster {
  servers        = ["https://10.0.0.11:6443"]
  ca_cert_hashes = [%q]
  token          = credential("bootstrap-token")
  retry          = "5s"
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "restart" "kubelet" {
  verify {
    settle  = "1s"
    timeout = "40s"
  }
}
`, siteRepository, tag, pin)
}

// installUnits gives a node the units of the package that pull, look and apply, and a socket at a port.
func (w *waves) installUnits(n *Node) {
	const units = "/usr/lib/systemd/system/"
	for _, name := range []string{
		"systemd/prelet-site.service", "systemd/prelet-check.service", "systemd/prelet-apply.service",
	} {
		text, err := os.ReadFile("../../packaging/" + name)
		must(w.t, err)
		must(w.t, n.Write(units+filepath.Base(name), string(text), 0o644))
	}
	text, err := os.ReadFile("../../packaging/systemd/tmpfiles.d/prelet.conf")
	must(w.t, err)
	must(w.t, n.Write("/usr/lib/tmpfiles.d/prelet.conf", string(text), 0o644))
	must(w.t, n.Write("/etc/systemd/system/prelet-.service.d/boot.conf",
		"[Service]\nEnvironment=PRELET_BOOT_ID="+n.bootID()+"\n", 0o644))
	must(w.t, n.Write(units+"taken.socket", "[Socket]\nListenStream=10301\n", 0o644))
	must(w.t, n.Write(units+"taken.service", "[Service]\nExecStart=sleep 1d\n", 0o644))
	in(w.t, n, "systemctl", "daemon-reload")
	in(w.t, n, "systemctl", "enable", "prelet-site.service")
	in(w.t, n, "systemctl", "start", "taken.socket")
}

// sign makes a site that changes the kubelet's configuration, and returns its folder.
func (w *waves) sign(counter int, patch string, flags ...string) string {
	w.t.Helper()
	dir := fmt.Sprintf("%s/site-%d", w.dir, counter)
	must(w.t, os.Mkdir(dir, 0o755))
	text := "stage \"write\" \"kubelet\" {\n  kubelet_config {\n    patch = {\n" + patch + "\n    }\n  }\n}\n"
	must(w.t, os.WriteFile(dir+"/pulled.hcl", []byte(text), 0o644))
	runOutput(w.t, w.c.Prelet, append([]string{
		"site", "sign", dir, "--key", w.dir + "/key", "--name", "gpu", "--counter", fmt.Sprint(counter),
		"--repository", siteRepository,
	}, flags...)...)

	return dir
}

// push stores a site by the tags of waves.
func (w *waves) push(dir string, tags ...string) {
	w.t.Helper()
	for _, tag := range tags {
		runOutput(w.t, w.c.Prelet, "push", dir, "oci-layout:"+w.dir+"/shelf:"+tag)
	}
}

// check does what the timer does, on nodes: a look, a check, and a run if the check starts one.
func (w *waves) check(names ...string) {
	w.t.Helper()
	for _, name := range names {
		n := w.nodes[name]
		in(w.t, n, "systemctl", "start", "prelet-check.service")
		must(w.t, waitFor(w.t.Context(), 2*time.Minute, "prelet-apply.service has ended on "+name, func() string {
			r, err := n.Run(w.t.Context(), "systemctl", "show", "-P", "ActiveState", "prelet-apply.service")
			if state := strings.TrimSpace(r.Out); err != nil || state != "inactive" && state != "failed" {
				return fmt.Sprint(state, err)
			}

			return ""
		}))
	}
}

// want compares a field of the configuration that kubelets run with, by node.
func (w *waves) want(field string, nodes map[string]float64) {
	w.t.Helper()
	for name, want := range nodes {
		_, err := w.c.Ready(w.t.Context(), name)
		must(w.t, err)
		config, err := w.c.Configz(w.t.Context(), w.nodes[name])
		must(w.t, err)
		if config[field] != want {
			status, _ := w.nodes[name].Run(w.t.Context(), "prelet", "status")
			w.t.Fatalf("%s of %s: got %v, want %v\n%s", field, name, config[field], want, status)
		}
	}
}

// wantWait looks for the reason why a node's site waits.
func (w *waves) wantWait(name, reason string) {
	w.t.Helper()
	metrics, err := w.nodes[name].Read("/run/prelet/metrics.prom")
	must(w.t, err)
	if want := fmt.Sprintf("prelet_site_waits{reason=%q} 1", reason); !strings.Contains(metrics, want) {
		status, _ := w.nodes[name].Run(w.t.Context(), "prelet", "status")
		w.t.Fatalf("metrics of %s: got\n%s\nwant %s\n%s", name, metrics, want, status)
	}
}

func (w *waves) kubectl(line string) {
	w.t.Helper()
	_, err := w.c.Kubectl(w.t.Context(), strings.Fields(line)...)
	must(w.t, err)
}

// serveSite answers GET and HEAD of manifests and blobs as a registry, from the layout.
func (w *waves) serveSite(out http.ResponseWriter, r *http.Request) {
	reference, isManifest := strings.CutPrefix(r.URL.Path, "/v2/sites/gpu/manifests/")
	if !isManifest {
		blob := strings.TrimPrefix(r.URL.Path, "/v2/sites/gpu/blobs/sha256:")
		http.ServeFile(out, r, filepath.Join(w.dir, "shelf/blobs/sha256", filepath.Base(blob)))
		return
	}

	var index struct {
		Manifests []struct {
			MediaType, Digest string
			Annotations       map[string]string
		}
	}
	text, err := os.ReadFile(w.dir + "/shelf/index.json")
	if err == nil {
		err = json.Unmarshal(text, &index)
	}
	if err != nil {
		http.Error(out, err.Error(), http.StatusInternalServerError)
		return
	}
	for _, m := range index.Manifests {
		if m.Digest == reference || m.Annotations["org.opencontainers.image.ref.name"] == reference {
			out.Header().Set("Content-Type", m.MediaType)
			out.Header().Set("Docker-Content-Digest", m.Digest)
			http.ServeFile(out, r, filepath.Join(w.dir, "shelf/blobs/sha256", strings.TrimPrefix(m.Digest, "sha256:")))
			return
		}
	}
	http.NotFound(out, r)
}

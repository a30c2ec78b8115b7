package kube

import (
	"bytes"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const stormVariable = "PRELET_KUBE_STORM" // how many boots; empty: none

// TestStorm boots many nodes in the same instant against an API server that serves few requests at once and dies in
// the middle: half of them for the first time, each with a token of its own, and half that have joined, each with its
// own certificate.
func TestStorm(t *testing.T) {
	boots, err := strconv.Atoi(os.Getenv(stormVariable))
	if err != nil {
		t.Skip("this boots a thousand nodes: make storm")
	}
	c := start(
		t,
		ClusterOptions{Audit: true, APIServer: []string{"--max-requests-inflight=20", "--max-mutating-requests-inflight=10"}},
	)
	s := newStorm(t, c, boots)
	joins, _ := s.command(s.nodes, "-join", c.Prelet)
	if err := joins.Run(); err != nil {
		t.Fatalf("got %v: %s; want no error", err, joins.Stderr)
	}
	t.Run("in a calm", func(t *testing.T) {
		some, before := s.nodes[:min(boots, 40)], len(s.received())
		calm, _ := s.command(some, "-together", "2")
		must(t, calm.Run())
		// Half of them join: cluster-info twice, the configuration, and the node of that name. The others have joined
		// and request only the configuration.
		if got, want := len(s.received())-before, (4+1)*len(some)/2; got != want {
			t.Errorf("%d boots one after the other: got %d requests, want %d", len(some), got, want)
		}
	})
	t.Run("turned away", func(t *testing.T) { s.turnedAway(t, s.nodes[:min(boots, 100)]) })
	t.Run("storm", s.run)
}

type stormNode struct {
	Name       string `json:"name"`
	Token      string `json:"token"`
	Kubeconfig string `json:"kubeconfig,omitempty"`
}

type storm struct {
	t     *testing.T
	c     *Cluster
	nodes []stormNode
	site  string
	roots string
}

func newStorm(t *testing.T, c *Cluster, boots int) *storm {
	s := &storm{t: t, c: c, nodes: make([]stormNode, boots), roots: t.TempDir()}
	ca := authorityOf(t, c)
	server := fmt.Sprintf("https://127.0.0.1:%d", c.Port)
	var tokens strings.Builder
	for i := range s.nodes {
		n := &s.nodes[i]
		n.Name = fmt.Sprintf("storm-%d", i)
		if i%2 == 1 {
			n.Token, n.Kubeconfig = c.Token, nodeKubeconfig(t, ca, server, n.Name)
			continue
		}
		id, secret := fmt.Sprintf("s%05d", i), fmt.Sprintf("secretofthis%04d", i)
		n.Token = id + "." + secret
		fmt.Fprintf(&tokens, tokenManifest, id, secret, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}
	create(t, c, tokens.String())
	for _, n := range s.nodes {
		if n.Kubeconfig == "" {
			must(t, c.Signed(t.Context(), n.Token))
		}
	}
	pin, err := c.Pin()
	must(t, err)
	// No stage reads hardware: a thousand machines have a thousand processors for that, and the single machine of this
	// test needs its time for what they share. The budget is for this machine too, on which the API server and all its
	// clients take turns.
	s.site = `
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
	return s
}

// command is bench/storm for some of the nodes.
func (s *storm) command(nodes []stormNode, flags ...string) (*exec.Cmd, *bytes.Buffer) {
	text, err := json.Marshal(map[string]any{"site": s.site, "boots": nodes})
	must(s.t, err)
	file := filepath.Join(s.t.TempDir(), "boots.json")
	must(s.t, os.WriteFile(file, text, 0o600))
	cmd := exec.CommandContext(
		s.t.Context(),
		"../../bin/bench/storm",
		append([]string{"-boots", file, "-dir", s.roots}, flags...)...)
	var stdout bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, new(bytes.Buffer)
	return cmd, &stdout
}

func (s *storm) received() []Request {
	all, err := s.c.Received("prelet")
	must(s.t, err)
	return all
}

// stormResult is what bench/storm says.
type stormResult struct {
	Boots, Failed, Retried, Retries, Together int

	Failures []string
	Seconds  float64
	P50      float64 `json:"p50_s"`
	P90      float64 `json:"p90_s"`
	Max      float64 `json:"max_s"`
	Most     int     `json:"most_retries"`
	Causes   map[string]int
}

// check tests what is true of any storm: all get what they request, no client comes before the server allows it, and
// not all at once.
func (s *storm) check(t *testing.T, stdout *bytes.Buffer, boots int, seen []Request) (r stormResult) {
	t.Helper()
	must(t, json.Unmarshal(stdout.Bytes(), &r))
	t.Logf("%d boots asked again, %d times in all, %d at most, because of %v", r.Retried, r.Retries, r.Most, r.Causes)
	t.Logf("at most %d retries in the same 10 ms", r.Together)
	if r.Failed != 0 || r.Boots != boots {
		t.Errorf("got %d of %d boots failed: %q; want Failed 0 and Boots %d", r.Failed, r.Boots, r.Failures, boots)
	}
	if r.Together > max(boots/5, 10) {
		t.Errorf("%d retries in the same 10 ms, want %d at most", r.Together, max(boots/5, 10))
	}
	// What the server saw of nodes that it knows by name. It asks for a second at least.
	refused, soon := map[string]time.Time{}, []string(nil)
	for _, q := range seen {
		who := q.User.Username
		if at, was := refused[who]; was && q.Came.Before(at.Add(time.Second)) {
			soon = append(soon, fmt.Sprintf("%s after %s", who, q.Came.Sub(at)))
		}
		delete(refused, who)
		if q.Response.Code == 429 && strings.HasPrefix(who, "system:node:") {
			refused[who] = q.Answered
		}
	}
	if len(soon) > 0 {
		t.Errorf("got %d were asked to wait and came within a second, such as %s; want no soon", len(soon), soon[0])
	}
	return r
}

// turnedAway makes the server turn all clients away until each of them was asked to wait: they share a priority level
// with a single seat, which is taken by a client that never finishes its request.
func (s *storm) turnedAway(t *testing.T, some []stormNode) {
	ctx := t.Context()
	create(t, s.c, closedFlow)
	uid, err := s.c.Kubectl(ctx, "get", "flowschema", "closed", "-o", "jsonpath={.metadata.uid}")
	must(t, err)
	anybody, err := rest.HTTPClientFor(rest.AnonymousClientConfig(s.c.Config))
	must(t, err)
	ask := func() (status int, flow string) {
		resp, err := anybody.Get(s.c.Config.Host + "/api/v1/namespaces/kube-public/configmaps/cluster-info")
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		return resp.StatusCode, resp.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)
	}
	must(t, waitFor(ctx, time.Minute, "everybody is in one flow", func() string {
		if _, flow := ask(); flow != uid {
			return flow
		}
		return ""
	}))
	holds := rest.CopyConfig(s.c.Config)
	holds.Impersonate.UserName = "holder"
	holds.QPS = -1 // it takes the seat as soon as a request of ask has left it
	holding, err := kubernetes.NewForConfig(holds)
	must(t, err)
	silence, end := io.Pipe()
	var held sync.WaitGroup
	held.Go(func() {
		// A request of ask may have the seat at that moment.
		err := error(apierrors.NewTooManyRequestsError(""))
		for apierrors.IsTooManyRequests(err) && ctx.Err() == nil {
			err = holding.AuthorizationV1().
				RESTClient().
				Post().
				Resource("selfsubjectaccessreviews").
				SetHeader("Content-Type", "application/json").
				Body(silence).
				MaxRetries(0).
				Do(ctx).
				Error()
		}
		t.Logf("the request that holds the seat ended: %v", err)
	})
	defer held.Wait()
	defer end.Close()
	// One answer of 429 is not enough: the seat may be that of the request before it.
	must(t, waitFor(ctx, time.Minute, "everybody is turned away", func() string {
		for range 10 {
			if status, _ := ask(); status != http.StatusTooManyRequests {
				return fmt.Sprint(status)
			}
		}
		return ""
	}))
	before := len(s.received())
	cmd, stdout := s.command(some)
	must(t, cmd.Start())
	must(t, waitFor(ctx, 2*time.Minute, "each was turned away", func() string {
		n := 0
		for _, q := range s.received()[before:] {
			if q.Response.Code == 429 {
				n++
			}
		}
		if n < len(some) {
			return fmt.Sprintf("%d of %d", n, len(some))
		}
		return ""
	}))
	_, err = s.c.Kubectl(ctx, "delete", "flowschema/closed", "prioritylevelconfiguration/closed")
	must(t, err)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("got %v: %s; want no error", err, cmd.Stderr)
	}
	s.check(t, stdout, len(some), s.received()[before:])
}

func (s *storm) run(t *testing.T) {
	boots, c := len(s.nodes), s.c
	before := len(s.received())
	cmd, stdout := s.command(s.nodes)
	must(t, cmd.Start())
	must(t, waitFor(t.Context(), 2*time.Minute, "a third of them have been served", func() string {
		if got := served(s.received()[before:], "kubelet-config"); got < boots/3 {
			return fmt.Sprintf("%d of %d", got, boots)
		}
		return ""
	}))
	began := time.Now()
	c.StopAPIServer()
	time.Sleep(time.Second)
	must(t, c.StartAPIServer(t.Context()))
	down := time.Since(began)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("got %v: %s; want no error", err, cmd.Stderr)
	}
	all := s.received()[before:]
	given, died, turned, known := 0, 0, map[string]int{}, 0 // what they asked for; with the server; away
	for _, q := range all {
		if strings.HasPrefix(q.User.Username, "system:node:") {
			known++
		}
		switch {
		case q.Response.Code == 0:
			died++
		case q.Response.Code == 404 && strings.Contains(q.URI, "/nodes/"): // the answer to a node that joins
			given++
		case q.Response.Code != 200 || q.URI == "/readyz":
			what := q.URI[strings.LastIndexByte(q.URI, '/')+1:]
			if strings.Contains(q.URI, "/nodes/") {
				what = "node"
			}
			turned[fmt.Sprintf("%d %s", q.Response.Code, what)]++
		default:
			given++
		}
	}
	r := s.check(t, stdout, boots, all)
	t.Logf(
		"%d boots at once, the API server away for %.1f s: all done after %.1f s (median %.1f, 90%% %.1f, last %.1f)",
		r.Boots,
		down.Seconds(),
		r.Seconds,
		r.P50,
		r.P90,
		r.Max,
	)
	each := float64(len(all)) / float64(boots)
	t.Logf(
		"%d requests, %.2f a boot (%d of those that had joined): %d were given what they asked for, %d died "+
			"with the server, %d were turned away: %v",
		len(all),
		each,
		known,
		given,
		died,
		len(all)-given-died,
		turned,
	)
	if r.Retried < boots/5 {
		t.Errorf("got %d boots had to ask again: the server did not die in the middle; want at least %d",
			r.Retried, boots/5)
	}
	// All that reached the server, refused and never answered ones, too. A client of a library asks more often than
	// one that was tuned to ask little; what counts is that a fleet comes up, and that a server with its own limits
	// can bear it.
	const most, inTime = 6, 120
	if each > most {
		t.Errorf("got %d requests, %.2f a boot, want %d at most", len(all), each, most)
	}
	if r.Max > inTime {
		t.Errorf("the last boot was done after %.1f s, want %d at most", r.Max, inTime)
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
	cert, key := pair(
		t,
		ca.issue(
			t,
			pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}},
			time.Now().Add(-time.Hour),
		),
	)
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: x
contexts: [{name: x, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {client-certificate-data: %s, client-key-data: %s}}]
`, server, encode([]byte(ca.pem())), encode([]byte(cert)), encode([]byte(key)))
}

// create creates objects.
func create(t *testing.T, c *Cluster, manifest string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "objects.yaml")
	must(t, os.WriteFile(file, []byte(manifest), 0o600))
	_, err := c.Kubectl(t.Context(), "create", "--validate=strict", "-f", file)
	must(t, err)
}

// tokenManifest is a bootstrap token as kubeadm makes it, of an id, a secret and the time when it expires.
const tokenManifest = `---
apiVersion: v1
kind: Secret
metadata: {namespace: kube-system, name: bootstrap-token-%[1]s}
type: bootstrap.kubernetes.io/token
stringData:
  token-id: %[1]q
  token-secret: %[2]q
  usage-bootstrap-signing: "true"
  usage-bootstrap-authentication: "true"
  expiration: %[3]q
  auth-extra-groups: system:bootstrappers:kubeadm:default-node-token
`

// closedFlow is a priority level with a single seat, for all clients of the storm and for the user holder.
const closedFlow = `
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: closed}
spec:
  type: Limited
  limited: {nominalConcurrencyShares: 0, borrowingLimitPercent: 0, limitResponse: {type: Reject}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: closed}
spec:
  priorityLevelConfiguration: {name: closed}
  matchingPrecedence: 2
  rules:
  - subjects:
    - {kind: User, user: {name: holder}}
    - {kind: Group, group: {name: "system:unauthenticated"}}
    - {kind: Group, group: {name: "system:bootstrappers"}}
    - {kind: Group, group: {name: "system:nodes"}}
    resourceRules:
    - {verbs: [get], apiGroups: [""], resources: [configmaps], namespaces: ["*"]}
    - {verbs: [create], apiGroups: [authorization.k8s.io], resources: [selfsubjectaccessreviews], clusterScope: true}
`

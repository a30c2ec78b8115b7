package kubeletstate

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/platform/nodefile/hangfs"
	"github.com/prelet/prelet/internal/testing/table"

	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/probe/joined"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/annotation"
	"github.com/prelet/prelet/internal/testing/demo"
)

var _ activation.Probe = Probe{}

// verdictOf is the verdict that an activation draws from an answer.
func verdictOf(err error) string {
	var u interface{ Unknown() bool }
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &u) && u.Unknown():
		return "unknown"
	}
	return "failed"
}

func place(t *testing.T, root, path, text string) {
	t.Helper()
	file := filepath.Join(root, path)
	must(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)))
}

func TestHealthz(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz":
			_, _ = w.Write([]byte("ok"))
		case "/moved":
			http.Redirect(w, r, "/healthz", http.StatusFound)
		case "/long":
			http.Error(w, strings.Repeat("long ", 200), http.StatusInternalServerError)
		default:
			http.Error(w, "[-]syncloop failed:\nreason withheld", http.StatusInternalServerError)
		}
	}))
	defer s.Close()
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	for _, c := range table.YAML[[]struct{ URL, State, Says string }](t, `
- {url: '{s.URL}/healthz', state: ok}
- {url: '{s.URL}/ill', state: failed, says: '[-]syncloop failed: reason withheld'}
# a secret may be at the cut
- {url: '{s.URL}/long', state: failed, says: long l…}
- {url: '{s.URL}/moved', state: failed, says: '302'}
- {url: http://127.0.0.1:1/healthz, state: failed, says: refused}
`, "s.URL", s.URL) {
		err := Probe{}.Healthz(t.Context(), c.URL)
		if verdictOf(err) != c.State || err != nil && !strings.Contains(err.Error(), c.Says) {
			t.Errorf("%s: %v, want %s with %q", c.URL, err, c.State, c.Says)
		}
	}
}

func TestFlags(t *testing.T) {
	root := t.TempDir()
	place(t, root, "/proc/42/cmdline", "/usr/bin/kubelet\x00--config=/x\x00--v\x002\x00--node-labels=a=b,c=d e\x00")
	p := Probe{Root: root}
	for _, c := range table.YAML[[]struct {
		PID   uint32
		Flags []string
		State string
	}](t, `
- {pid: 42, flags: ['--node-labels=a=b,c=d e', --v, '2'], state: ok}
# a part of a word is not the word
- {pid: 42, flags: [--node-labels=a=b], state: failed}
- {pid: 42, flags: [--v, --v], state: failed}
- {pid: 43, flags: [--v], state: failed}
`) {
		if err := p.Flags(t.Context(), c.PID, c.Flags); verdictOf(err) != c.State {
			t.Errorf("%d %q: %v, want %s", c.PID, c.Flags, err, c.State)
		}
	}
}

func TestFiles(t *testing.T) {
	root := t.TempDir()
	place(t, root, "/etc/a", "text")
	place(t, root, "/etc/dir/b", "")
	place(t, root, "/etc/huge", strings.Repeat("x", generation.MaxContent+1))
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("text")))
	zeros := strings.Repeat("0", 64)
	p := Probe{Root: root}
	for _, c := range table.YAML[[]struct {
		Path, Sum, State, Says string
	}](t, `
- {path: /etc/a, sum: '{sum}', state: ok}
- {path: /etc/a, sum: '{zeros}', state: failed, says: /etc/a is not as prelet wrote it}
- {path: /etc/none, sum: '{sum}', state: failed, says: /etc/none is gone}
- {path: /etc/huge, sum: '{sum}', state: failed, says: /etc/huge is not as prelet wrote it}
- {path: /etc/dir, sum: '{sum}', state: unknown, says: /etc/dir}
`, "sum", sum, "zeros", zeros) {
		err := p.Files(t.Context(), map[string]string{c.Path: c.Sum})
		if verdictOf(err) != c.State || err != nil && !strings.Contains(err.Error(), c.Says) ||
			err != nil && strings.Contains(err.Error(), root) && c.State == "failed" {
			t.Errorf("%s: %v, want %s with %q", c.Path, err, c.State, c.Says)
		}
	}
}

// Joined, not joined though the cluster is there, and not joined because it is not.
func TestKubeconfigAndNode(t *testing.T) {
	s := demo.Start(demo.ServerConfig{})
	defer s.Close()
	root := t.TempDir()
	p := Probe{Root: root, Now: time.Now}
	const conf = "/etc/kubernetes/kubelet.conf"
	if err := p.Kubeconfig(t.Context(), "n1"); verdictOf(err) != "failed" {
		t.Errorf("neither kubeconfig: got %v, want that it has not joined", err)
	}
	place(t, root, joined.BootstrapConf, kubelet.BootstrapKubeconfig(s.URL, "", string(s.CAPEM()), demo.Token))
	err := p.Kubeconfig(t.Context(), "n1")
	if verdictOf(err) != "failed" || !strings.Contains(err.Error(), "though the cluster answers") ||
		strings.Contains(err.Error(), demo.TokenSecret) {
		t.Errorf("not joined: got %v; want that the cluster answers, without the token", err)
	}
	place(t, root, pendingKey, "key")
	err = p.Kubeconfig(t.Context(), "n1")
	if verdictOf(err) != "failed" || !strings.Contains(err.Error(), "kubectl certificate approve NAME") {
		t.Errorf("a request without approval: got %v, want how to approve it", err)
	}
	if _, err := p.NodeObject(t.Context(), "n1"); verdictOf(err) != "unknown" {
		t.Errorf("without an identity: got %v, want it unknown", err)
	}
	place(t, root, conf, string(s.NodeKubeconfig("n1")))
	if err := p.Kubeconfig(t.Context(), "n1"); err != nil {
		t.Errorf("joined: got %v, want no error", err)
	}
	if _, err := p.NodeObject(t.Context(), "n1"); verdictOf(err) != "failed" || !strings.Contains(err.Error(), "journalctl") {
		t.Errorf("joined and not registered: got %v, want journalctl as the next step", err)
	}
	later := Probe{Root: root, Now: func() time.Time { return time.Now().AddDate(5, 0, 0) }}
	if err := later.Kubeconfig(t.Context(), "n1"); verdictOf(err) == "ok" {
		t.Error("an expired certificate counts as joined")
	}
	if got := later.Expired(); !strings.Contains(got, "expired at") || !strings.Contains(got, "the clock is at") {
		t.Errorf("in five years: got %q, want when it expired, and the clock's time", got)
	}
	_, err = later.NodeObject(t.Context(), "n1")
	if verdictOf(err) != "unknown" || !strings.Contains(fmt.Sprint(err), "set the clock, or join again") {
		t.Errorf("in five years: got %v, want no request with a certificate that has expired", err)
	}
	if got := p.Expired(); got != "" {
		t.Errorf("today: got %q, want that it has not expired", got)
	}
	s.Close()
	must(t, os.Remove(root+conf))
	if err := p.Kubeconfig(t.Context(), "n1"); verdictOf(err) != "unknown" {
		t.Errorf("unreachable cluster: got %v, want it unknown", err)
	}
}

// newProbe returns a probe of a node whose cluster gives one answer to all requests, and the last request. The cluster
// has the Node certified, too.
func newProbe(t *testing.T, name string, answer *demo.BadResponse) (p Probe, asked *string) {
	t.Helper()
	d := demo.New(demo.ServerConfig{})
	asked = new(string)
	d.Intercept = func(w http.ResponseWriter, r *http.Request, _ int) bool {
		b, _ := io.ReadAll(r.Body)
		*asked = strings.TrimSpace(r.Method + " " + r.URL.RequestURI() + " " + r.Header.Get("Content-Type") + " " + string(b))
		status, body := answer.Status, answer.Body
		if strings.HasSuffix(r.URL.Path, "/certified") {
			status, body = http.StatusOK, `{"kind":"Node","metadata":{"name":"certified"}}`
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	}
	d.StartTLS()
	t.Cleanup(d.Close)
	root := t.TempDir()
	place(t, root, joined.Conf, string(d.NodeKubeconfig(name)))
	return Probe{Root: root, Now: time.Now}, asked
}

func TestNodeObject(t *testing.T) {
	for _, c := range table.YAML[[]struct {
		Code        int
		Body, State string
	}](t, `
- {code: 200, body: '{"kind":"Node","metadata":{"name":"n1"}}', state: ok}
- {code: 200, body: <html>, state: unknown}
- {code: 404, body: '{"kind":"Status","reason":"NotFound","details":{"name":"n1","kind":"nodes"}}', state: failed}
- {code: 404, body: not found, state: unknown}
- {code: 403, body: '{"kind":"Status","reason":"Forbidden","details":{"kind":"nodes"}}', state: unknown}
- {code: 503, state: unknown}
`) {
		answer := &demo.BadResponse{Status: c.Code, Body: c.Body}
		p, asked := newProbe(t, "n1", answer)
		if _, err := p.NodeObject(t.Context(), "n1"); verdictOf(err) != c.State || *asked != "GET /api/v1/nodes/n1" {
			t.Errorf("%d %s: %v after %q, want %s", c.Code, c.Body, err, *asked, c.State)
		}
		// If the host name is not the node's name, the name comes from the certificate.
		p, _ = newProbe(t, "certified", answer)
		if _, err := p.NodeObject(t.Context(), "n1"); err != nil {
			t.Errorf("%d %s: got %v, want the node of the certificate's name", c.Code, c.Body, err)
		}
		// A plan without a name asks for the node of the certificate, and a message names that node.
		p, asked = newProbe(t, "n1", answer)
		_, err := p.NodeObject(t.Context(), "")
		isNamed := err == nil || strings.Contains(err.Error(), "node n1")
		if verdictOf(err) != c.State || *asked != "GET /api/v1/nodes/n1" || !isNamed {
			t.Errorf("%d %s, no name: got %v after %q, want %s of node n1", c.Code, c.Body, err, *asked, c.State)
		}
	}
}

// What a patch is sent as, and what counts as the cluster's no.
func TestPatchLabels(t *testing.T) {
	var answer demo.BadResponse
	p, asked := newProbe(t, "n1", &answer)
	for _, c := range table.YAML[[]struct {
		Code       int
		Body, Want string
	}](t, `
- {code: 200, body: '{}'}
- {code: 403, body: '{"kind":"Status","message":"is not allowed to modify labels: a.k8s.io/x"}',
   want: 'refused: is not allowed to modify labels: a.k8s.io/x'}
- {code: 422, body: '{"kind":"Status","message":"the server rejected our request due to an error in our request"}',
   want: 'refused: the server rejected'}
- {code: 400, body: '{"kind":"Status","message":"admission webhook \"x\" denied the request: no"}',
   want: 'refused: admission webhook'}
- {code: 401,
   body: '{"kind":"Status","message":"ValidatingAdmissionPolicy ''x'' with binding ''y'' denied request: no"}',
   want: 'refused: ValidatingAdmissionPolicy ''x'' with binding ''y'' denied request: no'}
- {code: 401, body: '{"kind":"Status","message":"Unauthorized"}', want: 'unknown: '}
- {code: 413, body: '{"kind":"Status","message":"denied request: too large"}',
   want: 'refused: denied request: too large'}
- {code: 400, body: <html>a portal</html>, want: 'unknown: '}
- {code: 404, body: '{"kind":"Status","message":"nodes \"n1\" not found"}', want: 'unknown: '}
- {code: 429, body: '{"kind":"Status","message":"too many requests"}', want: 'unknown: '}
- {code: 500, want: 'unknown: '}
`) {
		answer = demo.BadResponse{Status: c.Code, Body: c.Body}
		err := p.Patch(t.Context(), "n1", "", kubelet.LabelChanges{
			{Key: "a.k8s.io/x~y", Value: "1"},
			{Key: "b", Value: "2", Remove: true},
			{Key: "c", Value: ""},
		})
		state := ""
		var refused interface{ Refused() bool }
		switch {
		case errors.As(err, &refused) && refused.Refused():
			state = "refused: " + err.Error()
		case err != nil:
			state = verdictOf(err) + ": " + err.Error()
		}
		if !strings.HasPrefix(state, c.Want) || c.Want == "" && state != "" {
			t.Errorf("%d %s: %q, want %q", c.Code, c.Body, state, c.Want)
		}
		want := `PATCH /api/v1/nodes/n1?fieldManager=prelet application/json-patch+json [{"op":"add","path":"/metadata/labels/a.k8s.io~1x~0y","value":"1"},{"op":"test","path":"/metadata/labels/b","value":"2"},{"op":"remove","path":"/metadata/labels/b"},{"op":"add","path":"/metadata/labels/c","value":""}]`
		if *asked != want {
			t.Errorf("sent %s\nwant %s", *asked, want)
		}
	}
}

// Annotations are sent as a merge patch, where null removes one, and an event as a new object.
func TestPatchAnnotationsAndEvent(t *testing.T) {
	now := time.Now()
	at := now.UTC().Format(time.RFC3339)
	value := "1"
	for want, send := range map[string]func(p Probe) error{
		`PATCH /api/v1/nodes/n1?fieldManager=prelet application/merge-patch+json {"metadata":{"annotations":{"a/b":"1","c":null}}}`: func(p Probe) error {
			return p.Patch(t.Context(), "n1", "", annotation.Patch{"a/b": &value, "c": nil})
		},
		`POST /api/v1/namespaces/default/events application/json {"count":1,` +
			`"firstTimestamp":"` + at + `",` +
			`"involvedObject":{"apiVersion":"v1","kind":"Node","name":"n1","uid":"n1"},` +
			`"lastTimestamp":"` + at + `","message":"pinned","metadata":{"generateName":"n1."},` +
			`"reason":"PreletHeld","reportingComponent":"prelet","reportingInstance":"n1",` +
			`"source":{"component":"prelet","host":"n1"},"type":"Warning"}`: func(p Probe) error {
			return p.Event(t.Context(), kubelet.Event{Node: "n1", Reason: "PreletHeld", Message: "pinned", IsWarning: true})
		},
	} {
		answer := demo.BadResponse{Status: http.StatusOK, Body: `{"kind":"Status","message":"not here"}`}
		p, asked := newProbe(t, "n1", &answer)
		p.Now = func() time.Time { return now }
		if err := send(p); *asked != want || err != nil {
			t.Errorf("got %v, sent %s\nwant %s", err, *asked, want)
		}
		answer.Status = http.StatusForbidden
		if err := send(p); err == nil || !strings.Contains(err.Error(), "not here") {
			t.Errorf("403: got %v, want the message of the cluster", err)
		}
	}
}

// TestPods: the pods in the way of a drain are asked for as the Node authorizer allows it, and a list that is not whole,
// or not of an API server, is an error.
func TestPods(t *testing.T) {
	answer := demo.BadResponse{Status: http.StatusOK}
	p, asked := newProbe(t, "n1", &answer)
	for _, c := range table.YAML[[]struct{ Status, Body, Want, Err string }](t, `
- {body: '{"kind":"PodList","items":[]}', want: "[]"}
- body: >-
    {"kind":"PodList","items":[
    {"metadata":{"namespace":"a","name":"web","ownerReferences":[{"kind":"ReplicaSet","controller":true}]}},
    {"metadata":{"namespace":"a","name":"bare"}},
    {"metadata":{"namespace":"a","name":"owned","ownerReferences":[{"kind":"DaemonSet"}]}},
    {"metadata":{"namespace":"a","name":"proxy","ownerReferences":[{"kind":"DaemonSet","controller":true}]}},
    {"metadata":{"namespace":"a","name":"etcd","annotations":{"kubernetes.io/config.mirror":"1"}}}]}
  want: "[a/web a/bare a/owned]"
- {body: '{"kind":"PodList","metadata":{"continue":"x"},"items":[]}', want: "[]", err: more than one page}
- {body: '{"kind":"Status"}', want: "[]", err: kind is "Status"}
- {body: '{"kind":"PodList","ite', want: "[]", err: invalid list of pods}
- {status: "403", want: "[]", err: answered 403}
- {status: "401", want: "[]", err: answered 401}
`) {
		answer.Body, answer.Status = c.Body, http.StatusOK
		if c.Status != "" {
			answer.Status, _ = strconv.Atoi(c.Status)
		}
		pods, err := p.Pods(t.Context(), "n1")
		isErr := c.Err == "" && err == nil || c.Err != "" && err != nil && strings.Contains(err.Error(), c.Err)
		if fmt.Sprint(pods) != c.Want || !isErr {
			t.Errorf("%s%s: got %v, %v; want %s and an error with %q", c.Status, c.Body, pods, err, c.Want, c.Err)
		}
	}
	const want = "GET /api/v1/pods?fieldSelector=spec.nodeName%3Dn1%2Cstatus.phase%21%3DSucceeded%2C" +
		"status.phase%21%3DFailed&limit=250"
	if !strings.HasPrefix(*asked, want) {
		t.Errorf("got %s, want %s", *asked, want)
	}
}

func TestChangedAgo(t *testing.T) {
	root := t.TempDir()
	place(t, root, "/a", "x")
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(root+"/a", old, old); err != nil { // what a copy keeps does not count
		t.Fatal(err)
	}
	p := Probe{Root: root}
	if ago, ok := p.ChangedAgo([]string{"/a"}); !ok || ago > time.Minute {
		t.Errorf("a file that was just changed: got %s, %t; want less than a minute", ago, ok)
	}
	for _, paths := range [][]string{nil, {"/a", "/gone"}} {
		if ago, ok := p.ChangedAgo(paths); ok {
			t.Errorf("%q: got %s; want it unknown", paths, ago)
		}
	}
}

// TestChangedAgoHangs: a file on a mount that does not answer is one that cannot be read.
func TestChangedAgoHangs(t *testing.T) {
	t.Parallel()
	if ago, ok := (Probe{Root: hangfs.Mount(t)}).ChangedAgo([]string{"/a"}); ok {
		t.Errorf("got %s; want it unknown", ago)
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}

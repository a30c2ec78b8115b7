package kube

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// newerCases asks for TestNewerKubelets, and is how many kubelets it upgrades. Its seed is agreementSeed.
const newerCases = "PRELET_KUBE_NEWER_CASES"

// newerVersions is how many minor versions after the one in place are tried, newerFewest how many must be built, and
// newerNodes how many nodes run side by side: most of their time is waiting.
const (
	newerVersions = 3
	newerFewest   = 4
	newerNodes    = 10
)

// newerSite takes the kubelet's configuration from a file, or from the ConfigMap of newerObjects.
func newerSite(isObject bool) string {
	fetch, base := "", `file("`+agreementConfig+`")`
	if isObject {
		fetch = `
cluster {
  servers        = ["https://10.0.0.11:6443"]
  ca_cert_hashes = ["sha256:c4fb9ec8e0051b9a7bec575444da6356eb9bad26f409264e7719b16424e2c270"]
  token          = credential("bootstrap-token")
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
`
		base = `stage.fetch-config.kubelet.data["kubelet"]`
	}

	return fetch + `
stage "detect-hw" "node" {}
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config { base = ` + base + ` }
  kubelet_flags { base = file("/etc/prelet-case/flags.env") }
}
`
}

// newerObjects is the folder of the cluster's objects, as --objects takes it.
const newerObjects = "/etc/prelet-case/objects"

// kubeadmFlags is kubeadm's file of flags.
const kubeadmFlags = "/var/lib/kubelet/kubeadm-flags.env"

// newerUnit is a drop-in that adds flags to the kubelet's command line, in front of the others.
const newerUnit = `[Service]
ExecStart=
ExecStart=/usr/bin/kubelet %s $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`

// TestNewerKubelets compares `prelet upgrade` with the real kubelets of several minor versions. Each random node has
// the kubelet of one of them; each newer one is started with the flags and files that the plan for it writes. At most
// 0.3 % of these starts may be wrongly reported as failing, and 1 % may fail without a report; none for its flags and
// configuration where prelet has asked the newer binary. Where both versions run,
// what is reported as changed or ignored is compared with their /configz and with the feature gates of /metrics.
func TestNewerKubelets(t *testing.T) {
	text := os.Getenv(newerCases)
	if text == "" {
		t.Skip("this needs the kubelets of several versions: make kubelet-upgrades")
	}
	t.Parallel()
	want, err := strconv.Atoi(text)
	must(t, err)
	p := programs(t)
	kubelets := newerKubelets(t, p)
	seed, g := agreementRand(t)
	t.Logf("%s=%d %s=%d, kubelets of %v", agreementSeed, seed, newerCases, want, slices.Sorted(maps.Keys(kubelets)))

	n := &newerRun{
		t:        t,
		kubelets: kubelets,
		minors:   slices.Sorted(maps.Keys(kubelets)),
		want:     want,
		data:     readInputData(t),
	}
	n.inputs = newNewerInputs(t, newInputs(t, g), n.minors[len(n.minors)-1])
	n.run(p)
	n.report()
}

// agreementRand is the random source of agreementSeed.
func agreementRand(t *testing.T) (uint64, *rand.Rand) {
	t.Helper()
	seed := uint64(1)
	switch text := os.Getenv(agreementSeed); text {
	case "":
	case "random":
		seed = uint64(time.Now().UnixNano())
	default:
		n, err := strconv.ParseUint(text, 10, 64)
		must(t, err)
		seed = n
	}

	return seed, rand.New(rand.NewPCG(seed, 0))
}

// newerKubelets are the built kubelets by minor version.
func newerKubelets(t *testing.T, p Programs) map[int]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(p.Cache, "v1.*", "kubelet"))
	must(t, err)
	out := map[int]string{}
	for _, path := range paths {
		var minor, patch int
		if _, err := fmt.Sscanf(filepath.Base(filepath.Dir(path)), "v1.%d.%d", &minor, &patch); err == nil {
			out[minor] = path
		}
	}
	if len(out) < newerFewest {
		t.Fatalf("kubelets of %d minor versions in %s; want at least %d: make kubelet-upgrades", len(out), p.Cache,
			newerFewest)
	}

	return out
}

// newerRun is one run of the test.
type newerRun struct {
	t        *testing.T
	kubelets map[int]string
	minors   []int
	want     int
	data     inputData

	mu      sync.Mutex
	inputs  *newerInputs
	made    int // cases that were made
	started int // cases whose kubelet in place runs
	counts  map[string]int
	logged  map[string]int // how often a difference was found
}

// run tries cases on a few nodes side by side, until enough kubelets in place have run.
func (r *newerRun) run(p Programs) {
	r.counts, r.logged = map[string]int{}, map[string]int{}
	var workers sync.WaitGroup
	for range min(newerNodes, r.want) {
		n := newNewerNode(r.t, p, r.kubelets)
		r.t.Cleanup(n.Stop)
		workers.Go(func() {
			for {
				c, isOne := r.next()
				if !isOne {
					return
				}
				if err := r.try(n, c); err != nil {
					r.t.Errorf("%s from 1.%d: got %v; want no error", c, c.from, err)
				}
			}
		})
	}
	workers.Wait()
}

// next is the next case. Versions with more newer ones are in place more often.
func (r *newerRun) next() (newerCase, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started >= r.want || r.made >= 5*r.want {
		return newerCase{}, false
	}
	r.made++
	var from []int
	for i, minor := range r.minors {
		for range min(newerVersions, len(r.minors)-1-i) {
			from = append(from, minor)
		}
	}

	return r.inputs.next(pick(r.inputs.inputs, from...)), true
}

func (r *newerRun) count(name string) { r.add(name, 1) }

func (r *newerRun) add(name string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[name] += n
}

// differs counts a difference, and logs the first one of its kind.
func (r *newerRun) differs(name, what string, c newerCase, detail string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[name]++
	r.logged[what]++
	if r.logged[what] == 1 {
		r.t.Logf("%s: %s, from 1.%d\n  %s\n  %s", name, what, c.from, detail, c)
	}
}

// newNewerNode is a node that has all kubelets.
func newNewerNode(t *testing.T, p Programs, kubelets map[int]string) *Node {
	t.Helper()
	others := map[string]string{}
	for minor, path := range kubelets {
		others[kubeletOf(minor)] = path
	}
	n, err := p.NewNode(t.Context(), NodeOptions{Name: "n1", Files: others})
	must(t, err)
	must(t, n.StartFakeRuntime(t.Context(), "cgroupfs"))
	must(t, n.Credential("bootstrap-token", "abcdef.0123456789abcdef"))
	ca, err := os.ReadFile("../../examples/objects/ca.crt")
	must(t, err)
	must(t, n.Write(newerObjects+"/ca.crt", string(ca), 0o644))

	return n
}

func kubeletOf(minor int) string { return fmt.Sprintf("/opt/kubelets/1.%d/kubelet", minor) }

// upgradeReport is the document of `prelet upgrade`.
type upgradeReport struct {
	Versions []string
	Failed   []struct{ Code, Reason string }
	Effects  []upgradeRow
}

type upgradeRow struct {
	Effect  string
	Message *struct{ Severity, Code, Summary string }
	Reason  string
	Change  *struct{ Kind, Name, Action, From, To string }
	Counts  []int `json:"machines"`
}

// of are the rows of a version.
func (u upgradeReport) of(minor int) (rows []upgradeRow) {
	i := slices.Index(u.Versions, fmt.Sprintf("1.%d", minor))
	for _, row := range u.Effects {
		if i >= 0 && row.Counts[i] > 0 {
			rows = append(rows, row)
		}
	}

	return rows
}

// plannedFiles are the files of a plan of a node that has none of them yet.
type plannedFiles struct {
	Complete    bool
	CheckedBy   string `json:"kubelet_checked_by"`
	Files       []plannedFile
	Diagnostics []plannedDiagnostic
}

type plannedDiagnostic struct {
	Severity, Summary, Detail string

	Place any
	Range any
}

type plannedFile struct{ Path, Action, Diff, SHA256 string }

func (p plannedFiles) errors() string {
	var said []string
	for _, d := range p.Diagnostics {
		if d.Severity == "error" {
			said = append(said, d.Summary+": "+d.Detail)
		}
	}

	return strings.Join(said, "\n  ")
}

// places returns what the errors have, with their places, as JSON.
func (p plannedFiles) places() string {
	text, err := json.Marshal(slices.DeleteFunc(slices.Clone(p.Diagnostics), func(d plannedDiagnostic) bool {
		return d.Severity != "error"
	}))
	if err != nil {
		panic(err) // it was read from JSON
	}

	return string(text)
}

// judgedMode is the begin of the counts of `prelet upgrade --kubelet`.
const judgedMode = "with the kubelet's binary: "

// try upgrades one node.
func (r *newerRun) try(n *Node, c newerCase) error {
	if err := prepareNewer(n, c); err != nil {
		return err
	}
	newest := r.minors[len(r.minors)-1]
	var report upgradeReport
	if err := c.preletJSON(n, &report, "upgrade", "--to", fmt.Sprintf("1.%d", newest)); err != nil {
		return err
	}

	i := slices.Index(r.minors, c.from)
	newer := r.minors[i+1 : min(len(r.minors), i+1+newerVersions)]
	args := []string{"upgrade"}
	for _, to := range newer {
		args = append(args, "--kubelet", kubeletOf(to))
	}
	var judged upgradeReport
	if err := c.preletJSON(n, &judged, args...); err != nil {
		return err
	}

	var planned plannedFiles
	if err := c.plan(n, c.from, &planned); err != nil {
		return err
	}
	if !planned.Complete || len(report.Failed) > 0 {
		said := planned.errors()
		r.differs("not planned", last(said, 120), c, said)
		return nil
	}
	own, err := c.start(n, c.from, planned)
	if err != nil {
		return err
	}
	if own.complaint != "" {
		r.differs("not started", last(own.complaint, 120), c, own.complaint)
		return nil
	}
	r.mu.Lock()
	r.started++
	r.mu.Unlock()

	for _, to := range newer {
		// A plan with an error has no files: then those of the version in place are on the disk.
		files := planned
		var next plannedFiles
		if err := c.plan(n, to, &next); err != nil {
			return err
		}
		if next.Complete {
			files = next
		}
		will, err := c.start(n, to, files)
		if err != nil {
			return err
		}
		r.count("starts")
		r.count(fmt.Sprintf("starts of 1.%d from 1.%d", to, c.from))
		r.compareExits(c, judgedMode, to, judged.of(to), will)
		r.compare(c, to, report.of(to), own, will)
	}

	return nil
}

func (c newerCase) plan(n *Node, minor int, plan *plannedFiles) error {
	return c.preletJSON(n, plan, "plan", "--kubelet-version", fmt.Sprintf("1.%d", minor))
}

// prepareNewer writes the files of a case, and puts its kubelet in place.
func prepareNewer(n *Node, c newerCase) error {
	flags := c.Flags
	if c.DropIns != nil {
		flags = append(slices.Clone(flags), "config-dir="+agreementFolder)
	}
	object, err := json.Marshal(map[string]any{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"metadata":   map[string]any{"name": "kubelet-config", "namespace": "kube-system"},
		"data":       map[string]any{"kubelet": c.Config},
	})
	if err != nil {
		return err
	}
	unit := strings.NewReplacer("%", "%%", "'", "", "\n", "").Replace(words("", c.Unit))
	if err := errors.Join(
		n.Site(map[string]string{"site.hcl": newerSite(c.IsObject)}),
		writeDropIns(n, c.DropIns),
		n.Write(agreementConfig, c.Config, 0o644),
		n.Write(newerObjects+"/kube-system/kubelet-config.yaml", string(object), 0o644),
		n.Write("/etc/prelet-case/flags.env", words("KUBELET_EXTRA_ARGS=", flags), 0o644),
		n.Write(kubeadmFlags, words("KUBELET_KUBEADM_ARGS=", c.Kubeadm), 0o644),
		n.Write("/run/case.unit", words("UNIT_ARGS=", c.Unit), 0o644),
		n.Write("/etc/systemd/system/kubelet.service.d/90-case.conf", fmt.Sprintf(newerUnit, unit), 0o644),
	); err != nil {
		return err
	}

	// The groups before each, since systemd removes empty ones.
	done, err := n.Run(context.Background(), "sh", "-ec", `
for h in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do
  [ ! -e $h ] || mkdir -p ${h%cgroup.procs}is/there
done
systemctl daemon-reload
umount /usr/bin/kubelet; mount --bind "$1" /usr/bin/kubelet`, "sh", kubeletOf(c.from))
	if err == nil && done.Exit != 0 {
		err = fmt.Errorf("%s", done)
	}

	return err
}

// words returns flags as the value of a variable; "" without flags.
func words(variable string, flags []string) string {
	if len(flags) == 0 {
		return ""
	}

	return variable + "'--" + strings.Join(flags, " --") + "'\n"
}

// preletJSON runs a command of prelet for a case, and reads its document.
func (c newerCase) preletJSON(n *Node, document any, args ...string) error {
	args = append(args, "-o", "json")
	if c.IsObject {
		args = append(args, "--objects", newerObjects)
	}
	done, err := n.Prelet(context.Background(), args...)
	if err != nil {
		return err
	}
	if !slices.Contains([]int{0, 3, 10}, done.Exit) && done.Out == "" {
		return fmt.Errorf("prelet %s: %s", strings.Join(args, " "), last(done.String(), 600))
	}
	if err := json.Unmarshal([]byte(done.Out), document); err != nil {
		return fmt.Errorf("prelet %s: %w: %s", strings.Join(args, " "), err, last(done.String(), 600))
	}

	return nil
}

// observed is what a kubelet did.
type observed struct {
	complaint string            // its last words, if it ended
	isEarly   bool              // see isEarly
	fields    map[string]string // of /configz by place, as JSON; nil if it cannot be read
	gates     map[string]bool   // all feature gates
}

// start starts the kubelet of a version with the flags and files of a plan.
func (c newerCase) start(n *Node, minor int, plan plannedFiles) (out observed, err error) {
	written, err := writePlan(n, plan.Files)
	defer func() {
		for _, path := range written {
			err = errors.Join(err, os.Remove(n.Root()+path))
		}
	}()
	if err != nil {
		return out, err
	}
	for _, name := range []string{"cpu_manager_state", "memory_manager_state", "dra_manager_state"} {
		if err := os.RemoveAll(n.Root() + "/var/lib/kubelet/" + name); err != nil {
			return out, err
		}
	}

	return observe(n, kubeletOf(minor))
}

// writePlan writes the files of a plan as prelet would, and returns their paths. The files are small, so that a diff
// has all lines.
func writePlan(n *Node, files []plannedFile) (written []string, err error) {
	for _, f := range files {
		if f.Action == "none" {
			continue
		}
		if f.Action == "delete" { // the state of a manager, which the kubelet makes again
			if err := os.Remove(n.Root() + f.Path); err != nil {
				return written, err
			}
			continue
		}
		_, body, _ := strings.Cut(f.Diff, "@@\n")
		var text strings.Builder
		for line := range strings.Lines(body) {
			if !strings.HasPrefix(line, "-") {
				text.WriteString(line[1:])
			}
		}
		sum := sha256.Sum256([]byte(text.String()))
		if f.Action != "create" && f.Action != "update" || hex.EncodeToString(sum[:]) != f.SHA256 {
			return written, fmt.Errorf("%s: got the action %s and the diff %q; want a new text with the sum %s",
				f.Path, f.Action, f.Diff, f.SHA256)
		}
		if err := n.Write(f.Path, text.String(), 0o644); err != nil {
			return written, err
		}
		written = append(written, f.Path)
	}

	return written, nil
}

// observe starts a kubelet as its unit does. It is killed when its configuration has been read.
func observe(n *Node, program string) (out observed, err error) {
	script := fmt.Sprintf(`rm -f /run/case.settled /run/case.read
for file in /run/case.unit `+kubeadmFlags+` /etc/default/kubelet; do
  [ ! -e $file ] || . $file
done
set -f
"$1" $UNIT_ARGS --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS >/run/case.log 2>&1 & pid=$!
for i in $(seq %d); do
  kill -0 $pid 2>/dev/null || break
  if grep -q %q /run/case.log; then
    for j in $(seq 50); do
      kill -0 $pid 2>/dev/null || break
      grep -q %q /run/case.log && break
      sleep 0.1
    done
    sleep %.1f
    break
  fi
  sleep 0.1
done
kill -0 $pid 2>/dev/null || exit 0
touch /run/case.settled
for i in $(seq 150); do
  [ ! -e /run/case.read ] || break
  sleep 0.1
done
kill -KILL $pid; wait $pid 2>/dev/null; exit 100`, int(agreementPatient.Seconds())*10, started, agreementReady,
		agreementSettled.Seconds())

	ended := make(chan error, 1)
	var done CommandResult
	go func() {
		var err error
		done, err = n.Run(context.Background(), "sh", "-c", script, "sh", program)
		ended <- err
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for isRead := false; ; {
		select {
		case err := <-ended:
			if err != nil || done.Exit == 100 {
				return out, err
			}
			log, err := n.Read("/run/case.log")
			out.complaint = "ended: " + last(log, 300)
			if minds := complaints(log); len(minds) > 0 {
				out.complaint = last(minds[len(minds)-1], 600)
			}
			out.isEarly = isEarly(log, out.complaint)
			return out, err
		case <-tick.C:
			if _, err := os.Stat(n.Root() + "/run/case.settled"); err == nil && !isRead {
				isRead = true
				out.read(n)
				if err := n.Write("/run/case.read", "", 0o644); err != nil {
					return out, err
				}
			}
		}
	}
}

// read asks the kubelet for its configuration and its feature gates. One that does not serve them has none.
func (o *observed) read(n *Node) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // #nosec G402 -- it signs for itself
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return inNetwork(n.first.pid, func() (net.Conn, error) { return net.Dial(network, address) })
		},
	}}
	get := func(path string) []byte {
		answer, err := client.Get("https://127.0.0.1:10250/" + path)
		if err != nil {
			return nil
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			return nil
		}

		return body
	}

	var configz struct{ Kubeletconfig map[string]any }
	if json.Unmarshal(get("configz"), &configz) == nil && configz.Kubeletconfig != nil {
		o.fields = map[string]string{}
		addLeaves(o.fields, "", configz.Kubeletconfig)
	}

	metrics := bufio.NewScanner(strings.NewReader(string(get("metrics"))))
	for metrics.Scan() {
		line, isGate := strings.CutPrefix(metrics.Text(), `kubernetes_feature_enabled{name="`)
		if name, rest, ok := strings.Cut(line, `"`); isGate && ok {
			if o.gates == nil {
				o.gates = map[string]bool{}
			}
			o.gates[name] = strings.HasSuffix(rest, " 1")
		}
	}
}

// addLeaves adds the innermost values of an object, by place, as JSON.
func addLeaves(to map[string]string, at string, v any) {
	if object, isObject := v.(map[string]any); isObject {
		for name, inner := range object {
			addLeaves(to, strings.TrimPrefix(at+"."+name, "."), inner)
		}
		return
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	to[at] = string(text)
}

// compare compares what was reported of a version with what it did.
func (r *newerRun) compare(c newerCase, to int, rows []upgradeRow, own, newer observed) {
	if !r.compareExits(c, "", to, rows, newer) || newer.complaint != "" {
		return
	}
	r.compareGates(c, to, rows, own, newer)
	r.compareFields(c, to, rows, own, newer)
}

// compareExits compares whether a version was reported to exit with whether it did. mode is how prelet was asked. It
// returns false where there was no plan.
func (r *newerRun) compareExits(c newerCase, mode string, to int, rows []upgradeRow, newer observed) bool {
	var exits, warned []string
	for _, row := range rows {
		switch {
		case row.Effect == "fails":
			r.differs(mode+"no plan", row.Message.Summary, c, row.Reason)
			return false
		case row.Effect == "exits":
			exits = append(exits, row.Message.Summary+": "+row.Reason)
		case row.Effect == "may-exit":
			warned = append(warned, row.Message.Summary+": "+row.Reason)
		}
	}

	said := strings.Join(exits, "\n  ")
	isReported, isEnded := len(exits) > 0, newer.complaint != ""
	what := fmt.Sprintf("%s1.%d: %s%s", mode, to, newer.complaint, said)
	excuse := r.data.explains(!isEnded, said+newer.complaint)
	class := ""
	if newer.isEarly || isReported && strings.Contains(said, kubeletOf(to)) {
		class = "early "
	}
	switch {
	case isReported && isEnded:
		r.count(mode + class + "exit, as reported")
	case isReported == isEnded:
	case excuse != "":
		r.count(mode + "not counted: " + excuse)
	case len(warned) > 0:
		r.count(mode + class + "warned that it may exit")
	case isReported:
		r.differs(mode+"false alarms", what, c, said)
		r.count(mode + class + "false alarms, by class")
	default:
		r.differs(mode+"misses", what, c, newer.complaint)
		r.count(mode + class + "misses, by class")
	}

	return true
}

// compareGates compares the reported feature gates with those of both kubelets, as far as a kubelet reads them.
func (r *newerRun) compareGates(c newerCase, to int, rows []upgradeRow, own, newer observed) {
	if own.gates == nil || newer.gates == nil {
		return
	}
	reported := map[string]string{}
	for _, row := range rows {
		if row.Change != nil && row.Change.Kind == "gate" {
			reported[row.Change.Name] = row.Change.From + " to " + row.Change.To
		}
	}
	for name, isOn := range own.gates {
		will, isKnown := newer.gates[name]
		isRead := r.inputs.known["read"][name]
		if !isKnown || isRead.at(c.from) == "" && isRead.at(to) == "" {
			continue
		}
		r.count("gates compared")
		real := ""
		if isOn != will {
			real = fmt.Sprintf("%t to %t", isOn, will)
			r.count("gates that change")
		}
		if got := reported[name]; got != real {
			r.differs("gates", fmt.Sprintf("1.%d: %s: reported %q, is %q", to, name, got, real), c, "")
		}
	}
	for name, change := range reported {
		if _, isThere := newer.gates[name]; !isThere {
			r.differs("gates", fmt.Sprintf("1.%d: %s: reported %q, and the kubelet lacks it", to, name, change), c, "")
		}
	}
}

// compareFields compares the reported defaults and ignored fields with the configuration of both kubelets.
func (r *newerRun) compareFields(c newerCase, to int, rows []upgradeRow, own, newer observed) {
	if own.fields == nil || newer.fields == nil {
		r.count("without /configz")
		return
	}
	reported, means := map[string]string{}, map[string]bool{}
	for _, row := range rows {
		switch {
		case row.Change != nil && row.Change.Kind == "default":
			reported[row.Change.Name] = "default"
		case row.Effect == "ignores" && strings.HasPrefix(row.Message.Summary, "The kubelet would silently ignore "):
			reported[strings.TrimPrefix(row.Message.Summary, "The kubelet would silently ignore ")] = "ignored"
		case row.Effect == "differs":
			item := strings.TrimSuffix(strings.TrimPrefix(row.Message.Summary, "The meaning of "), " has changed")
			if obeyed, isObeyed := strings.CutPrefix(item, "The kubelet would obey "); isObeyed {
				reported[r.inputs.placeOf(obeyed)] = "obeyed"
			} else {
				means[r.inputs.placeOf(item)] = true
			}
		case row.Effect == "ignores":
			r.count("ignores: " + row.Message.Summary)
		}
	}

	r.compareMeaning(c, to, means, own, newer)

	places := maps.Clone(own.fields)
	maps.Copy(places, newer.fields)
	for place := range places {
		why := reported[place]
		delete(reported, place)
		if slices.Contains(notCompared(), place) {
			continue
		}
		r.count("fields compared")
		before, after := own.fields[place], newer.fields[place]
		field := r.inputs.known.fieldOf(place)
		isNew := field.at(c.from) == "" // the kubelet in place does not have it
		switch {
		case before == after && why != "":
			r.differs("fields", fmt.Sprintf("1.%d: %s: reported as %s, is %s in both", to, place, why, after), c, "")
		case before == after:
		case why != "":
			r.count("fields that change, as reported")
		case isNew && isDefaultOf(after, field.at(to)):
		default:
			r.differs("fields", fmt.Sprintf("1.%d: %s: not reported, was %s, is %s", to, place, before, after), c, "")
		}
	}
	for place, why := range reported {
		r.differs("fields", fmt.Sprintf("1.%d: %s: reported as %s, is in neither", to, place, why), c, "")
	}
}

// compareMeaning checks what is reported to mean something else: it has the same value in both configurations.
func (r *newerRun) compareMeaning(c newerCase, to int, means map[string]bool, own, newer observed) {
	const rate, unlimited = "eventRecordQPS", 37
	if own.fields[rate] == "0" && c.from < unlimited && to >= unlimited && !means[rate] {
		r.differs("fields", fmt.Sprintf("1.%d: %s: 0 means something else, which is not reported", to, rate), c, "")
	}
	for place := range means {
		r.count("fields that mean something else")
		if own.fields[place] == "" || own.fields[place] != newer.fields[place] {
			r.differs("fields", fmt.Sprintf("1.%d: %s: reported to mean something else, is %q and %q", to, place,
				own.fields[place], newer.fields[place]), c, "")
		}
	}
}

// notCompared are places of /configz that do not come from a file (since 1.36 it has its type, and the cgroup driver is
// the one of the runtime), and one that it has with and without the feature gate that gives it an effect.
func notCompared() []string {
	return []string{"kind", "apiVersion", "cgroupDriver", "memoryThrottlingFactor"}
}

// isDefaultOf reports whether a value in JSON is the default in a state of the tables, or empty.
func isDefaultOf(value, state string) bool {
	state, _, _ = strings.Cut(state, " |")
	_, preset, _ := strings.Cut(state, "=")

	return slices.Contains([]string{preset, strconv.Quote(preset), `""`, "false", "0", `"0s"`, "null"}, value)
}

// report logs all figures, and fails where the limits are exceeded.
func (r *newerRun) report() {
	r.t.Logf("%d kubelets in place ran, of %d", r.started, r.made)
	for _, name := range slices.Sorted(maps.Keys(r.counts)) {
		r.t.Logf("%8d %s", r.counts[name], name)
	}
	for _, what := range slices.Sorted(maps.Keys(r.logged)) {
		r.t.Logf("%6d times %s", r.logged[what], last(what, 300))
	}

	alarms, misses, all := r.counts["false alarms"], r.counts["misses"], r.counts["starts"]
	if 1000*alarms > 3*all || 100*misses > all {
		r.t.Errorf("got %d false alarms and %d misses in %d starts; want at most 0.3 %% and 1 %%", alarms, misses, all)
	}
	early := r.counts[judgedMode+"early false alarms, by class"] + r.counts[judgedMode+"early misses, by class"]
	if early > 0 {
		r.t.Errorf("%sgot %d disagreements about flags, decoding and validation; want none", judgedMode, early)
	}
	if n := r.counts[judgedMode+"no plan"] - r.counts["no plan"]; n > 0 {
		r.t.Errorf("%sgot %d times no plan; want the reason that the kubelet would not start", judgedMode, n)
	}
	if n := r.counts["gates"] + r.counts["fields"]; n > 0 {
		r.t.Errorf("got %d differences from /configz and /metrics; want none", n)
	}
	if r.started < r.want {
		r.t.Errorf("got %d kubelets in place that run; want %d", r.started, r.want)
	}
}

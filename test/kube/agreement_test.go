package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// Environment of TestAgreement.
const (
	agreementSeed  = "PRELET_KUBE_AGREEMENT_SEED"  // a number, or random; without it always the same one
	agreementCases = "PRELET_KUBE_AGREEMENT_CASES" // for each kind; without it a few of each
	agreementFile  = "PRELET_KUBE_AGREEMENT_FILE"  // a YAML list of cases to run in place of random ones
)

// What one run may take. A kubelet that is still there a while after its start has accepted its input; one that accepts
// it starts within seconds.
const (
	agreementSettled = 1300 * time.Millisecond
	agreementPatient = 25 * time.Second
	agreementNodes   = 6
)

// agreementReady is in the log of a kubelet that has found its amounts possible, which it looks at after it says that
// it has started, where its runtime is ready: on a busy machine that takes longer than agreementSettled.
const agreementReady = "starting control loop"

// inputCase is one input of a kubelet: the text of its configuration as it is, and flags.
type inputCase struct {
	Kind   string   `json:"kind"`
	Config string   `json:"config"` // the whole file; "" is the baseline
	Flags  []string `json:"flags"`  // NAME=VALUE, in this order
	// DropIns are the files of a --config-dir of the image, by path below it; nil: without the flag.
	DropIns map[string]string `json:"dropIns,omitempty"`
	// Unit has the ExecStart= and Environment= of the kubelet's unit, and the environment files that it reads, by path: all
	// flags are there, and systemd starts the kubelet. nil: the flags are in the site, and given to the kubelet.
	Unit map[string]string `json:"unit,omitempty"`
}

func (c inputCase) String() string {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}

	return string(b)
}

// agreement is a case and what both made of it.
type agreement struct {
	inputCase
	prelet, kubelet bool // accepted it
	said, complaint string
}

// TestAgreement gives random inputs to the real kubelet and to `prelet plan`. At most 0.3 % of the inputs of a kind may
// be refused by prelet alone (false alarms) and 1 % by the kubelet alone (misses); with few inputs that is none and
// one. With PRELET_KUBE_OLD the kubelet is the one of the older minor.
func TestAgreement(t *testing.T) {
	t.Parallel()
	p := programs(t)
	cases := agreementInputs(t)

	type table struct{ agreed, refused, alarms, misses, excused int }
	byKind, order := map[string]*table{}, []string{}
	data, excuses := readInputData(t), map[string]int{}

	for _, r := range runAgreement(t, p, cases) {
		k := byKind[r.Kind]
		if k == nil {
			k = &table{}
			byKind[r.Kind], order = k, append(order, r.Kind)
		}

		excuse := data.explains(r)
		switch {
		case r.prelet == r.kubelet:
			k.agreed++
			if !r.kubelet {
				k.refused++
			}
		case excuse != "":
			k.excused++
			excuses[excuse]++
		case r.kubelet:
			k.alarms++
			t.Logf("false alarm: %s\n  prelet: %s", r, r.said)
		default:
			k.misses++
			t.Logf("miss: %s\n  kubelet: %s", r, r.complaint)
		}
	}

	slices.Sort(order)
	t.Logf("%-14s %6s %8s %8s %6s %6s %8s", "kind", "cases", "agreed", "refused", "alarms", "misses", "excused")
	for _, kind := range order {
		k := byKind[kind]
		all := k.agreed + k.alarms + k.misses + k.excused
		t.Logf("%-14s %6d %8d %8d %6d %6d %8d", kind, all, k.agreed, k.refused, k.alarms, k.misses, k.excused)
		if 1000*k.alarms > 3*all || k.misses > 1 && 100*k.misses > all {
			t.Errorf("%s: got %d false alarms and %d misses in %d cases; want at most 0.3 %% and 1 %%",
				kind, k.alarms, k.misses, all)
		}
	}
	for why, n := range excuses {
		t.Logf("not counted, %d times: %s", n, why)
	}
}

// agreementInputs are the cases of a file, or random ones whose seed is logged.
func agreementInputs(t *testing.T) []inputCase {
	t.Helper()
	if name := os.Getenv(agreementFile); name != "" {
		text, err := os.ReadFile(name)
		must(t, err)
		var cases []inputCase
		must(t, yaml.UnmarshalStrict(text, &cases))

		return cases
	}

	seed, random := agreementRand(t)
	each := agreementFew
	if text := os.Getenv(agreementCases); text != "" {
		n, err := strconv.Atoi(text)
		must(t, err)
		each = n
	}

	t.Logf("%s=%d %s=%d", agreementSeed, seed, agreementCases, each)
	g := newInputs(t, random)
	var cases []inputCase
	for i := range each {
		for _, k := range inputKinds() {
			c := k.make(g, i)
			c.Kind = k.name
			cases = append(cases, c)
		}
	}

	return cases
}

// runAgreement runs cases on a few nodes side by side. Results are in the order of the cases.
func runAgreement(t *testing.T, p Programs, cases []inputCase) []agreement {
	t.Helper()
	out, next := make([]agreement, len(cases)), make(chan int)
	var workers sync.WaitGroup
	kubelet := ""
	if os.Getenv(oldVariable) != "" {
		kubelet = oldProgram(t, p, "kubelet")
	}

	for range min(agreementNodes, len(cases)) {
		n := newTried(t, p, kubelet)
		t.Cleanup(n.Stop)
		workers.Go(func() {
			for i := range next {
				r, err := compare(n, cases[i])
				if err != nil {
					t.Errorf("%s: got %v; want no error", cases[i], err)
				}
				out[i] = r
			}
		})
	}

	for i := range cases {
		next <- i
	}
	close(next)
	workers.Wait()

	return out
}

const (
	agreementConfig = "/etc/prelet-case/raw.yaml"
	agreementFolder = "/etc/prelet-case/conf.d"
	agreementSite   = `
stage "detect-hw" "node" {}
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config { base = file("` + agreementConfig + `") }
  kubelet_flags {
    base  = file("/etc/prelet-case/flags.env")
    flags = jsondecode(file("/etc/prelet-case/flags.json"))
  }
}
`
)

// compare gives one case to both. Labels and taints are stages' own, so as flags they are in the base, and so is a flag
// that is repeated; all others are the site's.
func compare(n *Node, c inputCase) (agreement, error) {
	if c.Unit != nil {
		return compareUnit(n, c)
	}
	r := agreement{inputCase: c}
	text := c.Config
	if text == "" {
		text = baseline
	}

	base, own := []string{}, map[string]string{}
	uses := map[string]int{}
	for _, f := range c.Flags {
		name, _, _ := strings.Cut(f, "=")
		uses[name]++
	}
	for _, f := range c.Flags {
		name, value, _ := strings.Cut(f, "=")
		plain := strings.ReplaceAll(name, "_", "-")
		if uses[name] > 1 || plain == "node-labels" || plain == "register-with-taints" {
			base = append(base, fmt.Sprintf("--%s=%s", name, value))
		} else {
			own[name] = value
		}
	}
	values, err := json.Marshal(own)
	if err != nil {
		return r, err
	}
	if c.DropIns != nil {
		base = append(base, "--config-dir="+agreementFolder)
	}
	if err := writeDropIns(n, c.DropIns); err != nil {
		return r, err
	}

	env := ""
	for i, word := range base {
		if strings.Contains(word, " ") {
			base[i] = `"` + word + `"` // systemd takes what is in quotes as one word, as the kubelet here gets it
		}
	}
	if len(base) > 0 {
		env = "KUBELET_EXTRA_ARGS='" + strings.Join(base, " ") + "'\n"
	}
	for name, text := range map[string]string{
		agreementConfig: text, "/etc/prelet-case/flags.env": env, "/etc/prelet-case/flags.json": string(values),
	} {
		if err := n.Write(name, text, 0o644); err != nil {
			return r, err
		}
	}
	if err := n.Site(map[string]string{"site.hcl": agreementSite}); err != nil {
		return r, err
	}

	// The text of a case may be above what one read of a file allows, so nothing but its end status counts.
	plan, err := n.Prelet(context.Background(), "plan", "-o", "json")
	if err != nil {
		return r, err
	}
	r.prelet, r.said = plan.Exit == 0, errorsOf(plan)

	if r.complaint, err = started1(n, c); err != nil {
		return r, err
	}
	r.kubelet = r.complaint == ""

	return r, nil
}

// The files of a unit whose flags are tried, and the site that leaves them as they are.
const (
	unitDropIn  = "/etc/systemd/system/kubelet.service.d/50-case.conf"
	kubeadmFile = "/var/lib/kubelet/kubeadm-flags.env"
	flagsFile   = "/etc/default/kubelet"
	otherFile   = "/etc/kubelet-of-vendor.env"
	unitSite    = `
stage "detect-hw" "node" {}
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config {
    path = "` + agreementConfig + `"
    base = file("` + agreementConfig + `")
  }
}
`
)

// compareUnit gives a case whose flags are in the kubelet's unit to both.
func compareUnit(n *Node, c inputCase) (agreement, error) {
	r := agreement{inputCase: c}
	ctx := context.Background()
	if err := writeDropIns(n, c.DropIns); err != nil {
		return r, err
	}
	files := maps.Clone(c.Unit)
	files[agreementConfig] = cmp.Or(c.Config, baseline)
	files["/run/prelet/kubelet.env"] = "" // the gate is open
	for name, text := range files {
		if err := n.Write(name, text, 0o644); err != nil {
			return r, err
		}
	}
	defer func() {
		for name := range c.Unit {
			_ = os.Remove(n.Root() + name)
		}
		_, _ = n.Run(ctx, "systemctl", "daemon-reload")
	}()
	if err := n.Site(map[string]string{"site.hcl": unitSite}); err != nil {
		return r, err
	}
	if reload, err := n.Run(ctx, "systemctl", "daemon-reload"); err != nil || reload.Exit != 0 {
		return r, fmt.Errorf("%s: %w", reload, err)
	}

	plan, err := n.Prelet(ctx, "plan", "-o", "json")
	if err != nil {
		return r, err
	}
	r.prelet, r.said = plan.Exit == 0, errorsOf(plan)
	r.complaint, err = tryKubelet(n, `rm -f /var/log/kubelet.log
systemctl reset-failed kubelet 2>/dev/null
systemctl start kubelet || exit 1
pid=$(systemctl show -P MainPID kubelet)
[ "$pid" -gt 0 ] || exit 0 # it has ended; a signal to 0 would end this test`, "/var/log/kubelet.log")
	r.kubelet = r.complaint == ""

	return r, err
}

// writeDropIns replaces the files of the folder.
func writeDropIns(n *Node, files map[string]string) error {
	if err := os.RemoveAll(n.Root() + agreementFolder); err != nil {
		return err
	}
	for name, text := range files {
		if err := n.Write(agreementFolder+"/"+name, text, 0o644); err != nil {
			return err
		}
	}

	return nil
}

// errorsOf are the errors of a plan, in one line each.
func errorsOf(r Result) string {
	var p struct {
		Diagnostics []struct{ Severity, Code, Detail string }
	}
	if json.Unmarshal([]byte(r.Out), &p) != nil {
		return last(r.Out+r.Err, 300)
	}

	var said []string
	for _, d := range p.Diagnostics {
		if d.Severity == "error" {
			said = append(said, d.Code+": "+d.Detail)
		}
	}

	return strings.Join(said, "\n  ")
}

// started1 starts the kubelet on a case; complaint is its last words if it ends, "" if it runs.
func started1(n *Node, c inputCase) (complaint string, err error) {
	words := []string{"/usr/bin/kubelet", "--config=" + agreementConfig, "--root-dir=" + agreementRoot, "--hostname-override=n1"}
	if c.DropIns != nil {
		words = append(words, "--config-dir="+agreementFolder)
	}
	for _, f := range c.Flags {
		words = append(words, "--"+f)
	}

	return tryKubelet(n, `"$@" >/run/case.log 2>&1 & pid=$!`, "/run/case.log", words...)
}

// agreementRoot is the kubelet's own folder.
const agreementRoot = "/var/lib/kubelet-case"

// tryKubelet runs a script that starts a kubelet, which leaves its process in $pid and its log in a file.
func tryKubelet(n *Node, start, logFile string, words ...string) (complaint string, err error) {
	for _, name := range []string{"cpu_manager_state", "memory_manager_state"} {
		if err := os.RemoveAll(n.Root() + agreementRoot + "/" + name); err != nil {
			return "", err
		}
	}

	script := start + fmt.Sprintf(`
for i in $(seq %d); do
  kill -0 $pid 2>/dev/null || break
  if grep -q %q %s; then
    for j in $(seq 50); do
      kill -0 $pid 2>/dev/null || break
      grep -q %[4]q %[3]s && break
      sleep 0.1
    done
    sleep %.1[5]f
    break
  fi
  sleep 0.1
done
if kill -0 $pid 2>/dev/null; then
  kill -KILL $pid
  wait $pid 2>/dev/null
  while kill -0 $pid 2>/dev/null; do sleep 0.02; done
  exit 100
fi
exit 0`, int(agreementPatient.Seconds())*10, started, logFile, agreementReady, agreementSettled.Seconds())
	r, err := n.Run(context.Background(), append([]string{"sh", "-c", script, "sh"}, words...)...)
	if err != nil || r.Exit == 100 {
		return "", err
	}
	if r.Exit != 0 {
		return "", fmt.Errorf("the kubelet was not started: %s", r)
	}

	log, err := n.Read(logFile)
	if err != nil {
		return "", err
	}
	if minds := complaints(log); len(minds) > 0 {
		return last(minds[len(minds)-1], 600), nil
	}

	return "ended: " + last(log, 300), nil
}

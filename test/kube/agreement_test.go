package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
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
	agreementKind  = "PRELET_KUBE_AGREEMENT_KIND"  // one kind, as unit
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
	// Place is the file, or FILE:LINE, of its one bad value, which prelet must name; "" if it may have others, or none.
	Place string `json:"place,omitempty"`
}

func (c inputCase) String() string {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}

	return string(b)
}

// agreement is a case, and what prelet and the kubelet made of it.
type agreement struct {
	inputCase
	verdicts  map[string]verdict // of prelet, by mode
	complaint string             // the kubelet's last words if it ended; "" if it runs
	isEarly   bool               // it has ended for its flags, or while it decoded or validated its configuration
	differs   []string           // fields of its configuration in which prelet's computation differs
	compared  bool
}

// verdict is what prelet made of a case.
type verdict struct {
	accepts   bool
	said      string        // its errors
	places    string        // what its errors have in JSON
	byKubelet bool          // a kubelet's binary was asked, and has answered
	files     []plannedFile // nil: prelet refuses it
}

// modes are the ways to ask prelet, with the flags of plan: its own rules and tables alone; the installed kubelet in
// addition, as a boot does; and a kubelet's program, as for another machine.
func modes(version string) map[string][]string {
	return map[string][]string{
		"rules":     {"--kubelet-version", version},
		"installed": nil,
		"program":   {"--kubelet", kubeletProgram},
	}
}

const kubeletProgram = "/usr/bin/kubelet"

// counted are the results of the cases of a kind in a mode. placed are the refusals of values at known places.
type counted struct {
	cases, refused, early, alarms, misses, earlyAlarms, earlyMisses, excused, unasked, placed, misplaced int
}

func (c *counted) add(o counted) {
	c.cases += o.cases
	c.refused += o.refused
	c.early += o.early
	c.alarms += o.alarms
	c.misses += o.misses
	c.earlyAlarms += o.earlyAlarms
	c.earlyMisses += o.earlyMisses
	c.excused += o.excused
	c.unasked += o.unasked
	c.placed += o.placed
	c.misplaced += o.misplaced
}

// TestAgreement gives random inputs to the real kubelet and to `prelet plan`. By prelet's rules at most 0.3 % of the
// inputs of a kind may be refused by prelet alone (false alarms) and 1 % by the kubelet alone (misses); with few inputs
// that is none and one. Where prelet asks a kubelet's binary, none may be in what this covers: flags, decoding and
// validation; and 0.1 % and 0.5 % of all. From 1.37 on, the configuration that the kubelet logs must be the one that
// prelet has computed. With PRELET_KUBE_OLD the kubelet is the one of the older minor.
func TestAgreement(t *testing.T) {
	t.Parallel()
	p := programs(t)
	cases := agreementInputs(t)
	data, excuses := readInputData(t), map[string]int{}
	counts := map[string]map[string]*counted{} // by mode and kind
	compared, differences := 0, map[string]int{}

	for _, r := range runAgreement(t, p, cases) {
		for mode, v := range r.verdicts {
			if counts[mode] == nil {
				counts[mode] = map[string]*counted{}
			}
			if counts[mode][r.Kind] == nil {
				counts[mode][r.Kind] = &counted{}
			}
			counts[mode][r.Kind].add(count(t, mode, v, r, data, excuses))
		}
		if r.compared {
			compared++
		}
		for _, d := range r.differs {
			field, _, _ := strings.Cut(d, ": computed")
			if differences[field]++; differences[field] == 1 {
				t.Errorf("%s\n  of %s", d, r)
			}
		}
	}

	for _, mode := range slices.Sorted(maps.Keys(counts)) {
		checkCounts(t, mode, counts[mode])
	}
	for why, n := range excuses {
		t.Logf("not counted, %d times: %s", n, why)
	}
	t.Logf("%d logged configurations compared, differences: %v", compared, differences)
}

// count counts a case in a mode, and logs a disagreement.
func count(
	t *testing.T, mode string, v verdict, r agreement, data inputData, excuses map[string]int,
) (c counted) {
	starts := r.complaint == ""
	excuse := data.explains(starts, v.said+r.complaint)
	c.cases = 1
	if !starts {
		c.refused = 1
	}
	if r.isEarly {
		c.early = 1
	}
	if mode != "rules" && v.accepts && !v.byKubelet {
		c.unasked = 1
	}

	if r.Place != "" && !starts && !v.accepts {
		c.placed = 1
		if !strings.Contains(v.places, r.Place) {
			c.misplaced = 1
			t.Logf("%s: not at %s: %s\n  prelet: %s", mode, r.Place, r, v.places)
		}
	}

	switch {
	case v.accepts == starts:
	case excuse != "":
		c.excused = 1
		excuses[excuse]++
	case starts:
		c.alarms = 1
		// Either the program has refused it, or prelet before that.
		if !v.byKubelet || strings.Contains(v.said, kubeletProgram) {
			c.earlyAlarms = 1
		}
		t.Logf("%s: false alarm: %s\n  prelet: %s", mode, r, v.said)
	default:
		c.misses = 1
		if r.isEarly {
			c.earlyMisses = 1
		}
		t.Logf("%s: miss: %s\n  kubelet: %s", mode, r, r.complaint)
	}

	return c
}

// checkCounts logs the counts of a mode, and fails where there are too many disagreements.
func checkCounts(t *testing.T, mode string, byKind map[string]*counted) {
	t.Helper()
	all := counted{}
	t.Logf("%-10s %-12s %6s %8s %6s %7s %7s %7s", mode, "kind", "cases", "refused", "early", "alarms", "misses", "excused")
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		c := byKind[kind]
		all.add(*c)
		t.Logf("%-10s %-12s %6d %8d %6d %7d %7d %7d", mode, kind, c.cases, c.refused, c.early, c.alarms, c.misses, c.excused)
		if 1000*c.alarms > 3*c.cases || c.misses > 1 && 100*c.misses > c.cases {
			t.Errorf("%s, %s: got %d false alarms and %d misses in %d cases; want at most 0.3 %% and 1 %%",
				mode, kind, c.alarms, c.misses, c.cases)
		}
	}
	t.Logf("%-10s %-12s %6d %8d %6d %7d %7d %7d", mode, "all", all.cases, all.refused, all.early, all.alarms, all.misses,
		all.excused)
	t.Logf("%s: %d bad values at known places, %d misplaced", mode, all.placed, all.misplaced)
	if 10*all.misplaced > all.placed {
		t.Errorf("%s: got another place for %d of %d bad values; want at most 10 %%", mode, all.misplaced, all.placed)
	}
	if mode == "rules" {
		return
	}

	if all.earlyAlarms+all.earlyMisses > 0 {
		t.Errorf("%s: got %d false alarms and %d misses in flags, decoding and validation; want none",
			mode, all.earlyAlarms, all.earlyMisses)
	}
	if 1000*all.alarms > all.cases || 200*all.misses > all.cases {
		t.Errorf("%s: got %d false alarms and %d misses in %d cases; want at most 0.1 %% and 0.5 %%",
			mode, all.alarms, all.misses, all.cases)
	}
	if all.unasked > 0 {
		t.Errorf("%s: got %d accepted plans that no kubelet was asked about; want none", mode, all.unasked)
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
		for _, k := range chosenKinds() {
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
	kubelet, version := "", filepath.Base(p.Kubernetes)
	if os.Getenv(oldVariable) != "" {
		kubelet = oldProgram(t, p, "kubelet")
		version = filepath.Base(filepath.Dir(kubelet))
	}

	for range min(agreementNodes, len(cases)) {
		n := newTried(t, p, kubelet, map[string]string{
			agreementHelper: filepath.Join(filepath.Dir(p.Prelet), "bench/effective"),
		})
		t.Cleanup(n.Stop)
		workers.Go(func() {
			for i := range next {
				r, err := compare(n, version, cases[i])
				if err != nil {
					t.Errorf("%s: got %v; want no error", cases[i], err)
					continue
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
	agreementConfig  = "/etc/prelet-case/raw.yaml"     // of the case
	agreementWritten = "/etc/prelet-case/kubelet.yaml" // what prelet makes of it
	agreementFolder  = "/etc/prelet-case/conf.d"
	agreementHelper  = "/opt/helpers/effective"
	agreementSite    = `
stage "detect-hw" "node" {}
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config {
    path = "` + agreementWritten + `"
    base = file("` + agreementConfig + `")
  }
  %s
}
`
	agreementFlags = `kubelet_flags {
    base  = file("/etc/prelet-case/flags.env")
    flags = jsondecode(file("/etc/prelet-case/flags.json"))
  }`
)

// The files of a unit.
const (
	unitDropIn  = "/etc/systemd/system/kubelet.service.d/50-case.conf"
	laterDropIn = "/etc/systemd/system/kubelet.service.d/60-case.conf"
	kubeadmFile = "/var/lib/kubelet/kubeadm-flags.env"
	flagsFile   = "/etc/default/kubelet"
	otherFile   = "/etc/kubelet-of-vendor.env"
)

// caseWords is the begin of the kubelet's command line.
func caseWords(config string) []string {
	return []string{kubeletProgram, "--config", config, "--hostname-override=n1"}
}

// unitText is the drop-in of a unit with a command line.
func unitText(environment, command string) string {
	return "[Service]\nRestart=no\n" + environment + "ExecStart=\nExecStart=" +
		strings.Join(caseWords(agreementWritten), " ") + " " + command + "\n"
}

// listFiles returns the files of a case. Without a unit of its own its flags are the site's, but labels and taints,
// which are stages' own, and a flag that is repeated, which are in the base.
func (c inputCase) listFiles() (map[string]string, error) {
	files := maps.Clone(c.Unit)
	if c.Unit == nil {
		base, own := c.splitFlags()
		values, err := json.Marshal(own)
		if err != nil {
			return nil, err
		}
		env := ""
		if len(base) > 0 {
			env = "KUBELET_EXTRA_ARGS='" + strings.Join(base, " ") + "'\n"
		}
		files = map[string]string{
			unitDropIn:                    unitText("", "$KUBELET_EXTRA_ARGS"),
			"/etc/prelet-case/flags.env":  env,
			"/etc/prelet-case/flags.json": string(values),
		}
	}
	for name, text := range c.DropIns {
		files[agreementFolder+"/"+name] = text
	}
	files[agreementConfig] = cmp.Or(c.Config, baseline)
	files["/run/prelet/kubelet.env"] = "" // the gate is open

	return files, nil
}

// splitFlags returns the flags of the base, as words of a variable, and those of the site.
func (c inputCase) splitFlags() (base []string, own map[string]string) {
	own = map[string]string{}
	uses := map[string]int{}
	for _, f := range c.Flags {
		name, _, _ := strings.Cut(f, "=")
		uses[name]++
	}
	for _, f := range c.Flags {
		name, value, _ := strings.Cut(f, "=")
		plain := strings.ReplaceAll(name, "_", "-")
		word := fmt.Sprintf("--%s=%s", name, value)
		switch {
		case uses[name] == 1 && plain != "node-labels" && plain != "register-with-taints":
			own[name] = value
		case strings.Contains(word, " "):
			base = append(base, `"`+word+`"`) // systemd takes what is in quotes as one word
		default:
			base = append(base, word)
		}
	}
	if c.DropIns != nil {
		base = append(base, "--config-dir="+agreementFolder)
	}

	return base, own
}

// prepareCase makes the node one on which nothing was tried. systemd removes groups that are empty.
const prepareCase = `
for h in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do
  [ ! -e $h ] || mkdir -p ${h%cgroup.procs}is/there
done
rm -f /var/lib/kubelet/*_manager_state /var/log/kubelet.log
systemctl daemon-reload
systemctl reset-failed kubelet 2>/dev/null || true`

// compare gives one case to both. The kubelet gets what prelet would put on the disk; if no plan is complete, it gets
// the case itself.
func compare(n *Node, version string, c inputCase) (r agreement, err error) {
	r = agreement{inputCase: c, verdicts: map[string]verdict{}}
	ctx := context.Background()
	files, err := c.listFiles()
	if err != nil {
		return r, err
	}
	written := slices.Collect(maps.Keys(files))
	defer func() {
		for _, name := range written {
			_ = os.Remove(n.Root() + name)
		}
	}()
	if err := os.RemoveAll(n.Root() + agreementFolder); err != nil {
		return r, err
	}
	if c.DropIns != nil {
		if err := os.MkdirAll(n.Root()+agreementFolder, 0o755); err != nil {
			return r, err
		}
	}
	for name, text := range files {
		if err := n.Write(name, text, 0o644); err != nil {
			return r, err
		}
	}
	flags := agreementFlags
	if c.Unit != nil {
		flags = ""
	}
	if err := n.Site(map[string]string{"site.hcl": fmt.Sprintf(agreementSite, flags)}); err != nil {
		return r, err
	}
	if done, err := n.Run(ctx, "sh", "-ec", prepareCase); err != nil || done.Exit != 0 {
		return r, fmt.Errorf("%s: %w", done, err)
	}

	var planned []plannedFile
	for mode, args := range modes(version) {
		v, err := askPlan(n, args)
		if err != nil {
			return r, err
		}
		r.verdicts[mode] = v
		if v.files != nil {
			planned = v.files
		}
	}

	start, words := startUnit, []string(nil)
	switch {
	case planned != nil:
		paths, err := writePlan(n, planned)
		written = append(written, paths...)
		if err != nil {
			return r, err
		}
	case c.Unit != nil:
		if err := n.Write(agreementWritten, files[agreementConfig], 0o644); err != nil {
			return r, err
		}
		written = append(written, agreementWritten)
	default:
		start, words = startWords, caseWords(agreementConfig)
		if c.DropIns != nil {
			words = append(words, "--config-dir="+agreementFolder)
		}
		for _, f := range c.Flags {
			words = append(words, "--"+f)
		}
	}
	var log string
	if r.complaint, log, err = tryKubelet(n, start, words...); err != nil {
		return r, err
	}
	r.isEarly = r.complaint != "" && isEarly(log, r.complaint)
	_, isUnread := c.Unit[otherFile] // a plan reads no such file, which may have secrets
	if planned != nil && !isUnread && strings.Contains(log, "Effective KubeletConfiguration") {
		done, err := n.Run(ctx, agreementHelper, strings.TrimPrefix(version, "v"), kubeletLog)
		if err != nil || done.Exit != 0 {
			return r, fmt.Errorf("%s: %w", done, err)
		}
		r.compared = true
		r.differs = strings.FieldsFunc(done.Out, func(c rune) bool { return c == '\n' })
	}

	return r, nil
}

// isEarly reports whether a kubelet has ended for its flags, or while it decoded or validated its configuration. Later
// it reads certificates, and logs its version.
func isEarly(log, complaint string) bool {
	return !strings.Contains(log, `Kubelet version"`) && !strings.Contains(complaint, "kubelet dependencies")
}

// askPlan plans with these flags. The text of a case may be above what one read of a file allows, so of a plan that is
// not complete nothing but its errors counts.
func askPlan(n *Node, args []string) (v verdict, err error) {
	done, err := n.Prelet(context.Background(), append([]string{"plan", "-o", "json"}, args...)...)
	if err != nil {
		return v, err
	}
	var p plannedFiles
	v.accepts = done.Exit == 0
	if json.Unmarshal([]byte(done.Out), &p) != nil {
		v.said = last(done.Out+done.Err, 300)
		return v, nil
	}
	v.said, v.places = p.errors(), p.places()
	v.byKubelet = p.CheckedBy == kubeletProgram
	if v.accepts {
		v.files = p.Files
	}

	return v, nil
}

const kubeletLog = "/var/log/kubelet.log"

// How a kubelet is started: by its unit, or by words.
const (
	startUnit = `systemctl start kubelet >>` + kubeletLog + ` 2>&1 || exit 0 # systemd refuses the unit
pid=$(systemctl show -P MainPID kubelet)
[ "$pid" -gt 0 ] || exit 0 # it has ended; a signal to 0 would end this test`
	startWords = `"$@" >` + kubeletLog + ` 2>&1 & pid=$!`
)

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

// tryKubelet runs a script that starts a kubelet, and leaves its process in $pid. complaint is the kubelet's last words
// if it ends, "" if it runs.
func tryKubelet(n *Node, start string, words ...string) (complaint, log string, err error) {
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
exit 0`, int(agreementPatient.Seconds())*10, started, kubeletLog, agreementReady, agreementSettled.Seconds())
	r, err := n.Run(context.Background(), append([]string{"sh", "-c", script, "sh"}, words...)...)
	if err != nil {
		return "", "", err
	}
	if r.Exit != 0 && r.Exit != 100 {
		return "", "", fmt.Errorf("the kubelet was not started: %s", r)
	}
	log, err = n.Read(kubeletLog)
	if err != nil || r.Exit == 100 {
		return "", log, err
	}

	if minds := complaints(log); len(minds) > 0 {
		return last(minds[len(minds)-1], 600), log, nil
	}

	return "ended: " + last(log, 300), log, nil
}

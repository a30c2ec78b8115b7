package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/internal/testing/table"
)

const canary = "s3cr3t-canary"

type bench struct {
	dir    string
	now    time.Time
	status []string
	log    bytes.Buffer
}

func newBench(t *testing.T) *bench {
	return &bench{dir: t.TempDir(), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

func (b *bench) reporter(t *testing.T, change func(*ReporterConfig)) *Reporter {
	t.Helper()
	o := ReporterConfig{Dir: b.dir, BootID: strings.Repeat("a", 32), Version: "1.2.3", Now: func() time.Time { return b.now },
		Mono:   func() time.Duration { return 5 * time.Second },
		Redact: strings.NewReplacer(canary, "(sensitive)").Replace,
		Notify: func(line string) error { b.status = append(b.status, line); return nil },
		Log: func(priority int, line string, fields map[string]string) {
			fmt.Fprintln(&b.log, priority, line, fields)
		}}
	if change != nil {
		change(&o)
	}
	r, err := New(o)
	must(t, err)
	return r
}

func (b *bench) load(t *testing.T) *Status {
	t.Helper()
	s, err := Load(b.dir)
	must(t, err)
	return s
}

func TestRun(t *testing.T) {
	b := newBench(t)
	r := b.reporter(t, nil)
	if s := b.load(t); s.State != Running || s.Finished != nil || s.InBoot(s.BootID) != Running {
		t.Errorf("while it runs: got %+v; want a running status", s)
	}
	r.Event(Event{Stage: "fetch-ca.cluster", State: Started})
	b.now = b.now.Add(40 * time.Millisecond)
	r.Event(Event{Stage: "fetch-ca.cluster", State: OK, Summary: "2 CAs"})
	r.Event(Event{Stage: "detect-hw.node", State: Skipped})
	r.Generation(7)
	r.Verdict("pending", "")
	b.now = b.now.Add(time.Second)
	s, err := finish(r, "", "generation 7 is in place")
	must(t, err)
	judged := s
	judged.Verdict = "good"
	if s.State != OK || s.InBoot(s.BootID) != Running || judged.InBoot(s.BootID) != OK ||
		s.InBoot("another boot") != Running {
		t.Errorf("Finish: got %+v; want %s, which awaits its verdict", s, OK)
	}
	text, _ := os.ReadFile(filepath.Join(b.dir, StatusFile))
	want := `{
  "format_version": 1,
  "prelet_version": "1.2.3",
  "boot_id": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
  "state": "ok",
  "exit": 0,
  "summary": "generation 7 is in place",
  "generation": 7,
  "verdict": "pending",
  "held": null,
  "degraded": [],
  "stages": [
    {
      "address": "fetch-ca.cluster",
      "state": "ok",
      "ms": 40
    },
    {
      "address": "detect-hw.node",
      "state": "skipped",
      "ms": 0
    }
  ],
  "started": "2026-03-01T12:00:00Z",
  "finished": "2026-03-01T12:00:01.04Z",
  "spans": [
    {
      "kind": "stage",
      "name": "fetch-ca.cluster",
      "start": "2026-03-01T12:00:00Z",
      "boot_us": 5000000,
      "us": 40000
    }
  ]
}
`
	if string(text) != want {
		t.Errorf("status.json:\n%s\nwant\n%s", text, want)
	}
	if got := strings.Join(
		b.status,
		"|",
	); got != "fetch-ca.cluster|fetch-ca.cluster: 2 CAs|report: ok: generation 7 is in place" {
		t.Errorf("STATUS= lines: got %s; want another line for each event", got)
	}
}

func TestStates(t *testing.T) {
	for name, tc := range map[string]struct {
		do    func(*Reporter)
		code  fault.Code
		state string
	}{
		"ok":                    {func(*Reporter) {}, "", OK},
		"degraded":              {func(r *Reporter) { r.Degrade("stale", "the cluster did not answer") }, "", Degraded},
		"held":                  {func(r *Reporter) { r.Held("abc", "crash loop") }, "", Degraded},
		"held no more":          {func(r *Reporter) { r.Held("abc", "crash loop"); r.Held("", "") }, "", OK},
		"mended":                {func(r *Reporter) { r.Degrade("stale", "x"); r.ClearDegraded("stale") }, "", OK},
		"failed":                {func(*Reporter) {}, fault.ClusterUnreachable, Failed},
		"failed beats degraded": {func(r *Reporter) { r.Degrade("stale", "x") }, fault.RolledBack, Failed},
	} {
		b := newBench(t)
		r := b.reporter(t, nil)
		tc.do(r)
		s, err := finish(r, tc.code, "")
		if err != nil || s.State != tc.state || s.Code != tc.code || s.Exit != tc.code.Exit() ||
			s.InBoot(s.BootID) != tc.state {
			t.Errorf("%s: got %+v, %v; want state %s and code %q", name, s, err, tc.state, tc.code)
		}
	}
}

// TestErrorCode: a failure without a code is Internal, as an older prelet stores no code.
func TestErrorCode(t *testing.T) {
	for text, want := range map[string]fault.Code{
		`{"format_version":1,"state":"ok","exit":0}`:                             "",
		`{"format_version":1,"state":"running","exit":0}`:                        "",
		`{"format_version":1,"state":"failed","exit":10,"code":"label-invalid"}`: fault.LabelInvalid,
		`{"format_version":1,"state":"failed","exit":50}`:                        fault.Internal,
	} {
		s, err := Decode([]byte(text))
		must(t, err)
		if got := s.ErrorCode(); got != want {
			t.Errorf("%s: got code %q; want %q", text, got, want)
		}
	}
}

func TestVerifyGoesOnWithTheReportOfTheRun(t *testing.T) {
	b := newBench(t)
	run := b.reporter(t, nil)
	run.Event(Event{Stage: "label.gpu", State: OK})
	run.Degrade("stale", "the cluster did not answer")
	run.Generation(3)
	if _, err := finish(run, "", "done"); err != nil {
		t.Fatal(err)
	}
	verify := b.reporter(t, func(o *ReporterConfig) { o.Continue = true })
	verify.Verdict("good", "")
	s, err := finish(verify, "", "healthy")
	if err != nil || s.Generation != 3 || len(s.Stages) != 1 || len(s.Degraded) != 1 || s.State != Degraded ||
		s.Verdict != "good" {
		t.Errorf("verify: got %+v, %v; want the first status with the verdict good", s, err)
	}
	next := b.reporter(t, func(o *ReporterConfig) { o.Continue, o.BootID = true, strings.Repeat("b", 32) })
	if s := next.Status(); s.Generation != 0 || len(s.Stages) != 0 || len(s.Degraded) != 0 {
		t.Errorf("the next boot: got %+v; want a fresh status", s)
	}
	osfile.Write(t, filepath.Join(b.dir, StatusFile), "{", 0o600)
	if s := b.reporter(t, func(o *ReporterConfig) { o.Continue = true }).Status(); s.State != Running {
		t.Errorf("after an unreadable status: got %+v; want a running one", s)
	}
}

// The report of a run that took over stays if it has a verdict. One that awaits it gets the verdict that this run
// found.
func TestOvertaken(t *testing.T) {
	for verdict, want := range map[string]bool{"good": true, "": true, "pending": false} {
		b := newBench(t)
		first := b.reporter(t, nil)
		b.now = b.now.Add(time.Second)

		second := b.reporter(t, nil)
		if first.IsOvertaken() {
			t.Error("got overtaken by a run that has not ended, want not")
		}

		if verdict != "" {
			second.Verdict(Verdict(verdict), "")
		}

		if _, err := finish(second, "", "done"); err != nil {
			t.Fatal(err)
		}

		if got := first.IsOvertaken(); got != want {
			t.Errorf("verdict %q: got overtaken %t, want %t", verdict, got, want)
		}
	}
}

func TestRedaction(t *testing.T) {
	b := newBench(t)
	r := b.reporter(t, nil)
	r.Event(Event{Stage: "fetch-config.x", State: Started, Summary: "with " + canary})
	r.Event(Event{Stage: "fetch-config.x", State: Failed, Summary: canary, Message: MessageStuck})
	r.Degrade("stale", canary)
	r.Verdict("bad", canary)
	r.Held("abc", canary)
	r.HeldBack("kubelet.service", canary)
	if _, err := finish(r, fault.Internal, canary); err != nil {
		t.Fatal(err)
	}
	all := b.log.String() + strings.Join(b.status, "\n")
	for _, name := range []string{StatusFile, MetricsFile} {
		text := osfile.Read(t, filepath.Join(b.dir, name))
		all += string(text)
	}
	if strings.Contains(all, canary) {
		t.Errorf("got a secret in the output:\n%s\nwant it redacted", all)
	}
	if got := strings.Count(all, "(sensitive)"); got < 10 {
		t.Errorf("redacted canaries: got %d, want 9", got)
	}
}

func TestJournalOfTheKubelet(t *testing.T) {
	b := newBench(t)
	r := b.reporter(t, nil)
	r.HeldBack("kubelet.service", "cluster unreachable (exit 20)")
	for _, want := range []string{
		"OBJECT_SYSTEMD_UNIT:kubelet.service", "MESSAGE_ID:" + MessageHeldBack, "PRELET_STAGE:gate",
		"3 prelet holds kubelet.service back: cluster unreachable (exit 20)",
	} {
		if !strings.Contains(b.log.String(), want) {
			t.Errorf("%q is not in %s", want, b.log.String())
		}
	}
}

func TestMetrics(t *testing.T) {
	b := newBench(t)
	r := b.reporter(t, func(o *ReporterConfig) { o.Version = "1\"2\\3\n" })
	r.Event(Event{Stage: "restart", State: Started})
	b.now = b.now.Add(250 * time.Millisecond)
	r.Event(Event{Stage: "restart", State: Failed})
	r.Event(Event{Stage: "restart", State: Started})
	b.now = b.now.Add(1250 * time.Millisecond)
	r.Event(Event{Stage: "restart", State: OK})
	r.Degrade("stale", "a")
	r.Degrade("stale", "b")
	r.Degrade("stale", "b")
	r.Verdict("bad", "")
	r.Generation(3)
	if _, err := finish(r, fault.RolledBack, ""); err != nil {
		t.Fatal(err)
	}
	text := osfile.Read(t, filepath.Join(b.dir, MetricsFile))
	for _, want := range []string{
		`prelet_info{version="1\"2\\3\n"} 1`, `prelet_state{state="failed"} 1`, `prelet_error{code="rolled-back"} 1`, `prelet_state{state="ok"} 0`, `prelet_exit_code 50`,
		`prelet_generation 3`, `prelet_verdict{verdict="bad"} 1`, `prelet_verdict{verdict="good"} 0`, `prelet_held 0`,
		`prelet_degraded{code="stale"} 2`, `prelet_last_run_timestamp_seconds 1772366400`, `prelet_last_run_duration_seconds 1.5`,
		`prelet_stage_duration_seconds{stage="restart",state="ok"} 1.25`,
		`prelet_last_result{result="failed"} 1`, `prelet_last_result{result="ok"} 0`, `prelet_failed_runs_total 1`,
	} {
		if !strings.Contains("\n"+string(text), "\n"+want+"\n") {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
	// The collector refuses a whole file with a sample that occurs twice, or a family that has no type.
	seen := map[string]bool{}
	family := ""
	for line := range strings.Lines(string(text)) {
		series, _, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			family, _, _ = strings.Cut(name, " ")
		} else if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, family) {
			t.Errorf("%q: got no type, want one", line)
		}
		if seen[series] {
			t.Errorf("%q: got two samples, want one", series)
		}
		seen[series] = true
	}
}

// metrics returns the samples of metrics.prom: name and labels → value.
func (b *bench) metrics(t *testing.T) map[string]string {
	t.Helper()
	text := osfile.Read(t, filepath.Join(b.dir, MetricsFile))

	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			out[name] = value
		}
	}

	return out
}

// TestResultsSurviveTheStart: systemd repeats a failed run, and a killed one. What the last finished run found stays in
// the metrics meanwhile.
func TestResultsSurviveTheStart(t *testing.T) {
	b := newBench(t)
	again := func(o *ReporterConfig) { o.Continue = true }
	names := table.YAML[map[string]string](t, `
running: prelet_state{state="running"}
failed: prelet_last_result{result="failed"}
ok: prelet_last_result{result="ok"}
code: prelet_error{code="cluster-unreachable"}
runs: prelet_failed_runs_total
success: prelet_last_success_timestamp_seconds
held: prelet_held
until: prelet_kubelet_held_until_timestamp_seconds
exit: prelet_exit_code
`)
	check := func(when, want string) {
		t.Helper()
		got := b.metrics(t)
		for pair := range strings.FieldsSeq(want) {
			key, value, _ := strings.Cut(pair, "=")
			if name := names[key]; name == "" || got[name] != value {
				t.Errorf("%s: got %s %q, want %q", when, name, got[name], value)
			}
		}
	}
	finish := func(r *Reporter, code fault.Code) {
		t.Helper()
		b.now = b.now.Add(time.Minute)
		if _, err := finish(r, code, ""); err != nil {
			t.Fatal(err)
		}
	}

	run := b.reporter(t, nil)
	check("first run", "running=1 failed=0 ok=0 runs=0 success= exit=")
	run.Held("abc", "crash loop")
	run.HoldKubelet(time.Unix(1_900_000_000, 0))
	finish(run, fault.ClusterUnreachable)
	check("failed", "running=0 failed=1 code=1 runs=1 held=1 exit=20 until=1900000000")

	b.reporter(t, nil)
	inProgress := "running=1 failed=1 code=1 runs=1 held=1 exit=20"
	check("repeated", inProgress)
	run = b.reporter(t, nil)
	check("killed and repeated", inProgress)
	finish(run, fault.ClusterUnreachable)
	check("failed again", "failed=1 runs=2 held=0 until=")

	verify := b.reporter(t, again)
	finish(verify, fault.ClusterUnreachable)
	check("verify keeps the failure", "failed=1 runs=2")

	run = b.reporter(t, nil)
	run.Verdict("pending", "")
	finish(run, "")
	check("pending", "ok=1 failed=0 code= runs=2 success=")

	verify = b.reporter(t, again)
	verify.Verdict("good", "")
	finish(verify, "")
	judged := formatNumber(float64(b.now.Unix()))
	check("good", "ok=1 runs=2 success="+judged)

	verify = b.reporter(t, again)
	finish(verify, fault.RolledBack)
	check("unhealthy later", "failed=1 runs=3 success="+judged)

	if s := b.load(t); s.Last != nil {
		t.Errorf("finished: got last_run %+v, want none", s.Last)
	}
	b.reporter(t, func(o *ReporterConfig) { o.BootID = strings.Repeat("b", 32) })
	check("next boot", "running=1 failed=0 ok=0 runs=0 success=")
}

func TestFilesAreReplacedWhole(t *testing.T) {
	b := newBench(t)
	r := b.reporter(t, nil)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := Load(b.dir); err != nil {
					t.Errorf("a reader got %v, want a whole file", err)
					return
				}
			}
		}
	})
	for range 40 {
		if _, err := finish(r, "", strings.Repeat("x", 20_000)); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	readers.Wait()
	info, err := os.Stat(filepath.Join(b.dir, StatusFile))
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("got mode %v, %v; want a file that every user may read", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(b.dir, ".*")); len(left) != 0 {
		t.Errorf("temporaries: got %v, want none", left)
	}
}

// finish ends a run and writes its status and metrics.
func finish(r *Reporter, code fault.Code, summary string) (Status, error) {
	s := r.Finish(code, summary)

	return s, errors.Join(r.WriteStatus(), s.WriteMetrics(r.o.Dir))
}

func TestFolderThatIsGone(t *testing.T) {
	b := newBench(t)
	r := b.reporter(t, nil)
	os.RemoveAll(b.dir)
	r.Event(Event{Stage: "x", State: OK}) // no panic, no stop
	if _, err := finish(r, "", ""); err == nil {
		t.Error("written to a folder that is not there")
	}
}

func TestLoadRefuses(t *testing.T) {
	if _, err := Load(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v, want fs.ErrNotExist", err)
	}
	spans, long := strings.Repeat(",{}", maxLinks), strings.Repeat("x", StatusLimit)
	for name, text := range map[string]string{
		"half":    `{"format_version":1,"state":"ok"`,
		"newer":   `{"format_version":2,"state":"ok"}`,
		"foreign": `{"state":"ok"}`,
		"a state": `{"format_version":1,"state":"great"}`,
		"spans":   `{"format_version":1,"state":"ok","spans":[{}` + spans + `]}`,
		"huge":    `{"format_version":1,"state":"ok","summary":"` + long + `"}`,
	} {
		dir := t.TempDir()
		osfile.Write(t, filepath.Join(dir, StatusFile), text, 0o600)
		if s, err := Load(dir); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got %+v, %v; want an error with the path", name, s, err)
		}
	}
}

func FuzzStatus(f *testing.F) {
	f.Add(
		[]byte(
			`{"format_version":1,"state":"ok","stages":[{"address":"a","state":"ok","ms":1}],"degraded":[{"code":"c","summary":"s"}],"held":{"plan_hash":"p","why":"w"}}`,
		),
	)
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Decode(text)
		if err != nil {
			return
		}
		out, err := s.encode()
		if err != nil {
			t.Skip() // a time out of range
		}
		back, err := Decode(out)
		if err != nil {
			t.Fatalf("%s: reading its own output %s: got %v, want no error", text, out, err)
		}
		again, err := back.encode()
		if err != nil || !bytes.Equal(out, again) || !json.Valid(out) {
			t.Errorf("encoded again: got\n%s\nwant\n%s\n(%v)", again, out, err)
		}
	})
}

// The page on monitoring has each id under which an entry can be found.
func TestMessageIDsAreDocumented(t *testing.T) {
	page := osfile.Read(t, "../../../docs/operators/monitoring.md")
	for _, id := range readMessageIDs(t) {
		if !strings.Contains(string(page), "`"+id+"`") {
			t.Errorf("%s: got no line in docs/operators/monitoring.md, want one", id)
		}
	}
}

// readMessageIDs returns the values of the constants Message… of this package.
func readMessageIDs(t *testing.T) (ids []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "report.go", nil, 0)
	must(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "Message") {
			ids = append(ids, strings.Trim(v.Values[0].(*ast.BasicLit).Value, `"`))
		}
		return true
	})
	if len(ids) == 0 {
		t.Fatal("got no message ids, want some")
	}
	return ids
}

// TestCatalog checks that the catalog of journalctl -x has one entry for each message id, and no other, each with its
// headers and a text; and that systemd's tool takes it, where that is installed.
func TestCatalog(t *testing.T) {
	const path = "../../../packaging/systemd/catalog/prelet.catalog"
	text := osfile.Read(t, path)
	var got []string
	for _, entry := range strings.Split(string(text), "\n-- ")[1:] {
		id, rest, _ := strings.Cut(entry, "\n")
		head, body, _ := strings.Cut(rest, "\n\n")
		got = append(got, id)
		for _, name := range []string{"Subject: ", "Defined-By: prelet", "Support: ", "Documentation: "} {
			if !strings.Contains("\n"+head, "\n"+name) {
				t.Errorf("%s: got headers\n%s\nwant %s", id, head, name)
			}
		}
		if strings.TrimSpace(body) == "" {
			t.Errorf("%s: got no text, want one", id)
		}
	}
	want := readMessageIDs(t)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("entries: got %q, want %q", got, want)
	}

	tool, err := exec.LookPath("journalctl")
	if err != nil {
		t.Skip("journalctl is not installed: its reading of the catalog is not checked")
	}
	root := t.TempDir()
	for _, folder := range []string{"usr/lib/systemd/catalog", "var/lib/systemd/catalog"} {
		must(t, os.MkdirAll(filepath.Join(root, folder), 0o755))
	}
	osfile.Write(t, filepath.Join(root, "usr/lib/systemd/catalog/prelet.catalog"), text, 0o644)
	for _, verb := range []string{"--update-catalog", "--list-catalog"} {
		out, err := exec.CommandContext(t.Context(), tool, "--root="+root, verb).CombinedOutput()
		if err != nil {
			t.Fatalf("journalctl %s: got %v, want no error: %s", verb, err, out)
		}
		for _, id := range want {
			if verb == "--list-catalog" && !strings.Contains(string(out), id+" prelet: ") {
				t.Errorf("%s: got no line in journalctl --list-catalog, want one:\n%s", id, out)
			}
		}
	}
}

// TestClockSet sets the clock during a run: it took as long as the monotonic clock says.
func TestClockSet(t *testing.T) {
	for _, jump := range []time.Duration{-time.Hour, -56 * 365 * 24 * time.Hour, 56 * 365 * 24 * time.Hour} {
		b := newBench(t)
		mono := 5 * time.Second
		r := b.reporter(t, func(o *ReporterConfig) { o.Mono = func() time.Duration { return mono } })
		b.now, mono = b.now.Add(jump), mono+3*time.Second
		if _, err := finish(r, "", "done"); err != nil {
			t.Fatal(err)
		}
		if s := b.load(t); s.Finished.Sub(s.Started) != 3*time.Second || !r.IsLast() {
			t.Errorf("the clock is set by %s: got started %s and finished %s; want 3s between them", jump, s.Started, s.Finished)
		}
	}
}

// TestUnitOfMessages checks which unit's journal has the messages of a failure: that of the process that failed.
func TestUnitOfMessages(t *testing.T) {
	b := newBench(t)
	finish := func(unit string, again bool, code fault.Code) {
		t.Helper()
		r := b.reporter(t, func(o *ReporterConfig) { o.Unit, o.Continue = unit, again })
		if _, err := finish(r, code, "x"); err != nil {
			t.Fatal(err)
		}
	}
	finish("prelet.service", false, fault.Syntax)
	finish("prelet-verify.service", true, fault.Syntax)
	if got := b.load(t).Unit; got != "prelet.service" {
		t.Errorf("unit: got %q, want that of the run", got)
	}
	finish("prelet-verify.service", true, fault.RolledBack)
	if got := b.load(t).Unit; got != "prelet-verify.service" {
		t.Errorf("unit: got %q, want that of the verdict", got)
	}
	finish("", false, "")
	if got := b.load(t).Unit; got != "" {
		t.Errorf("unit: got %q, want none of a run by hand", got)
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}

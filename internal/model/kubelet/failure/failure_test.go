package failure

import (
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prelet/prelet/internal/testing/osfile"
)

var update = flag.Bool("update", false, "write testdata/want.txt")

func describeCause(lines []string) string {
	c, ok := Recognise(lines)
	if !ok {
		return "nothing is recognised; the last error: " + LastError(lines)
	}
	end := "it waits"
	if c.Final {
		end = "it ends"
	}
	return fmt.Sprintf("%s, %s: %s\n    about %s", c.ID, end, c.Sentence, strings.Join(c.Items, " "))
}

// TestRealLogs reads what a real kubelet v1.36.3 printed for each bad input (its last lines; taken with test/kube), and
// words of other versions and other runtimes, from their sources and from reports of them.
func TestRealLogs(t *testing.T) {
	files, err := filepath.Glob("testdata/*.log")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d logs, %v", len(files), err)
	}
	var b strings.Builder
	for _, f := range files {
		text := osfile.Read(t, f)
		fmt.Fprintf(&b, "%s\n  %s\n", strings.TrimSuffix(filepath.Base(f), ".log"), describeCause(strings.Split(string(text), "\n")))
	}
	others := osfile.Read(t, "testdata/other.txt")
	for line := range strings.Lines(string(others)) {
		log := []string{"I0101 00:00:00.000000 1 server.go:1] started", line, "I0101 00:00:01.000000 1 x.go:1] later"}
		fmt.Fprintf(&b, "%s  %s\n", line, describeCause(log))
	}
	osfile.Golden(t, "testdata/want.txt", b.String(), *update)
}

// The kubelet is healthy: only a failure of all its pods is a cause, and other lines of the log are not.
func TestRecogniseInPods(t *testing.T) {
	const head = `E1120 16:35:14.243391 93 log.go:32] "RunPodSandbox from runtime service failed" err="rpc error: code = Unknown desc = `
	for _, c := range []struct{ line, id, item string }{
		{head + `failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: expected cgroupsPath to be of format \"slice:prefix:name\" for systemd cgroups, got \"/kubepods/besteffort/pod1/2\" instead: unknown"`, "driver-runc", "config/cgroupDriver"},
		{head + `x: expected cgroupsPath to be of format \\\"slice:prefix:name\\\" for systemd cgroups, got \\\"/k8s.io/8dc5224c\\\" instead: unknown"`, "driver-unnamed", "config/cgroupsPerQOS"},
		{head + `cri-o configured with systemd cgroup manager, but did not receive slice as parent: /kubepods/besteffort/pod1"`, "driver-crio-systemd", "config/cgroupDriver"},
		{head + `cri-o configured with cgroupfs cgroup manager, but received systemd slice as parent: /kubepods.slice"`, "driver-crio-cgroupfs", "config/cgroupDriver"},
		{head + `failed to pull image \"localhost/pause:1\": not found"`, "", ""},
		{`E1120 16:35:14.000000 93 x.go:1] "x" err="running with swap on is not supported"`, "", ""},
	} {
		got, ok := RecogniseInPods(
			[]string{"I0101 00:00:00.000000 1 server.go:1] started", c.line, `E0101 00:00:01.000000 1 x.go:1] "other"`},
		)
		if ok != (c.id != "") || got.ID != c.id || ok && (got.Items[0] != c.item || got.Final) {
			t.Errorf("%s\n  %v %+v, want %s about %s", c.line, ok, got, c.id, c.item)
		}
	}
	// If a kubelet cannot join, that is reported first.
	lines := []string{
		head + `expected cgroupsPath to be of format \"slice:prefix:name\" for systemd cgroups, got \"/kubepods/x\" instead"`,
		`E0101 00:00:00.000000 1 x.go:1] "x" err="cannot create certificate signing request: Unauthorized"`,
	}
	if c, ok := Recognise(lines); !ok || c.ID != "token" {
		t.Errorf("%+v", c)
	}
}

// What ends a kubelet counts before what only keeps it waiting, wherever it is.
func TestOrder(t *testing.T) {
	wait := `E0101 00:00:00.000000 1 x.go:1] "x" err="cannot create certificate signing request: Unauthorized"`
	end := `E0101 00:00:00.000000 1 run.go:1] "command failed" err="failed to parse kubelet flag: unknown flag: --a"`
	for _, lines := range [][]string{{wait, end}, {end, wait}} {
		if c, ok := Recognise(lines); !ok || c.ID != "flag-unknown" {
			t.Errorf("%+v", c)
		}
	}
}

func TestLastLine(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"no log":        {nil, ""},
		"empty lines":   {[]string{"", " "}, ""},
		"the last one":  {[]string{"reading", "line\t3: bad ", ""}, "line 3: bad"},
		"a secret":      {[]string{"token abcdef.0123456789abcdef"}, "token (secret)"},
		"a broken text": {[]string{"bad \xff"}, "bad ?"},
		"a cut":         {[]string{strings.Repeat(" ", maxLine-3) + "secret"}, "sec…"},
	} {
		if got := LastLine(c.lines); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestLastError(t *testing.T) {
	long := strings.Repeat("é", 500)
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{nil, ""},
		{[]string{"I0101 00:00:00.000000 1 x.go:1] fine"}, ""},
		{[]string{`E0101 00:00:00.000000 1 x.go:1] "Something new" err="of tomorrow \"quoted\""`, `E0101 00:00:00.000000 1 kubelet.go:1] "Skipping pod synchronization" err="x"`}, `"Something new" err="of tomorrow "quoted""`},
		{[]string{`E0101 00:00:00.000000 1 run.go:1] "command failed" err="x y"`}, "x y"},
		{[]string{`E0101 00:00:00.000000 1 x.go:1] "x" err="token abcdef.0123456789abcdef, Authorization: Bearer eyJhbGciOi.abc.def"`}, `"x" err="token (secret), Authorization: (secret)`},
		{[]string{"panic: runtime error: index out of range", "", "goroutine 1 [running]:"}, "panic: runtime error: index out of range"},
		{[]string{"panic:" + strings.Repeat(" ", maxLine-9) + "secret"}, "panic: sec…"},
		{[]string{"E0101 00:00:00.000000 1 x.go:1] " + long}, strings.Repeat("é", 198) + "…"},
	} {
		if got := LastError(c.lines); got != c.want {
			t.Errorf("%q: %q, want %q", c.lines, got, c.want)
		}
	}
}

// Each row has an id of its own, a sentence that goes on after "the kubelet: ", and groups that its expression has.
func TestRows(t *testing.T) {
	paragraphs := 0
	for _, text := range strings.Split(table, "\n\n") {
		if lines := strings.Split(strings.TrimSpace(text), "\n"); !strings.HasPrefix(lines[len(lines)-1], "#") {
			paragraphs++
		}
	}
	if n := len(parseRows()); n != paragraphs || n < 50 {
		t.Errorf("%d rows of %d", n, paragraphs)
	}
	seen := map[string]bool{}
	for _, r := range parseRows() {
		re, err := regexp.Compile(r.pattern)
		if err != nil {
			t.Errorf("%s: %v", r.id, err)
			continue
		}
		if seen[r.id] {
			t.Errorf("%s is there twice", r.id)
		}
		seen[r.id] = true
		if strings.HasSuffix(r.sentence, ".") || r.sentence == "" {
			t.Errorf("%s: %q", r.id, r.sentence)
		}
		for _, text := range append([]string{r.sentence}, r.items...) {
			for _, g := range regexp.MustCompile(`\$(\d)`).FindAllStringSubmatch(text, -1) {
				if int(g[1][0]-'0') > re.NumSubexp() {
					t.Errorf("%s: %q has no group %s", r.id, r.pattern, g[1])
				}
			}
		}
	}
}

func FuzzRecognise(f *testing.F) {
	f.Add("E0101 00:00:00.000000 1 x.go:1] \"x\" err=<\n\tunknown flag: --a\n >\npanic: x")
	f.Add("\xff\n err=<\n")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Split(text, "\n")
		c, ok := Recognise(lines)
		if ok &&
			(c.ID == "" || len(c.Words) > maxWords || len(c.Sentence) > maxWords || !utf8.ValidString(c.Sentence+c.Words)) {
			t.Errorf("%+v", c)
		}
		if l := LastError(lines); len(l) > maxWords || !utf8.ValidString(l) {
			t.Errorf("%q", l)
		}
	})
}

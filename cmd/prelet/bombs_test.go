package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/testing/sample"

	"github.com/prelet/prelet/internal/testing/osfile"
)

// peakFile is a variable with the file for the peak memory of prelet-measured.
const peakFile = "PRELET_TEST_PEAK"

// runMeasured runs prelet, and writes the largest amount of memory that this process had, in KiB.
func runMeasured() {
	c := cli{stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
	code := c.main(os.Args[1:])
	status, err := os.ReadFile("/proc/self/status")
	if found := regexp.MustCompile(`VmHWM:\s+(\d+)`).FindSubmatch(status); err == nil && found != nil {
		err = os.WriteFile(os.Getenv(peakFile), found[1], 0o600)
	}
	if err != nil {
		panic(err)
	}
	os.Exit(code)
}

// Text of recordings and of the answers in them.
const (
	emptyRecording = `{"format":1,"prelet":"x","time":"","site":[],"answers":[%s]}`
	factsAnswer    = `{"kind":"facts","args":{},"answer":{"value":%s}}`
	someFacts      = `"cpu":{"logical":1},"memory":{"total_bytes":1}`
)

// A bombCase is a small file that a laptop or CI reads from others, and that would take seconds or gigabytes.
type bombCase struct {
	name    string // of its file
	content []byte
	command string // FILE is the path of the file, DIR its folder
	want    string // in the output
}

func bombs(t *testing.T) []bombCase {
	t.Helper()
	many := func(n int, text string) string { return strings.TrimSuffix(strings.Repeat(text+",", n), ",") }
	recording := func(answers string) []byte { return fmt.Appendf(nil, emptyRecording, answers) }
	facts := func(text string) []byte { return []byte("{" + someFacts + "," + text + "}") }
	objects := func(text string) []byte {
		return []byte("apiVersion: v1\nkind: ConfigMap\nx: " + text + "\n")
	}
	manyKeys := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%q:{},", strconv.Itoa(i))
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	const (
		plan     = "plan --from FILE"
		detect   = "detect --hardware FILE"
		withHCL  = "validate --config DIR"
		asObject = "plan --config ../../examples/gpu-training --hardware ../../testdata/hardware/facts/bare-vm.json " +
			"--var zone=az1-r07 --objects DIR"
		objectFile = "kube-system/kubelet-config.yaml"
	)
	lists := ""
	for _, name := range []string{"nics", "accelerators", "pci", "block_devices", "unknown"} {
		lists += `,"` + name + `":[` + many(9_999, "{}") + `]`
	}

	return []bombCase{
		{"answers.prelet.gz", packed(t, recording(many(3_000_000, "{}"))), plan, "more than 10000 members"},
		{"nulls.prelet", recording(many(2_000_000, "null")), plan, "more than 10000 members"},
		{"deep.prelet", recording(strings.Repeat("[", 2_000_000) + strings.Repeat("]", 2_000_000)), plan, "64 deep"},
		{"open.prelet", recording(strings.Repeat("[", 2_000_000)), plan, "64 deep"},
		{"levels.prelet", recording(strings.Repeat("[", 65) + strings.Repeat("]", 65)), plan, "64 deep"},
		{"broken.prelet", append(recording(many(9_999, "{}")), "}}}"...), plan, "invalid character"},
		{"keys.prelet", recording("{" + manyKeys(200_000) + "}"), plan, "more than 10000 members"},
		{"twice.prelet", []byte("{" + many(1_000_000, `"format":1`) + "}"), plan, "more than 10000 members"},
		{"nested.prelet", recording(many(30, "["+many(9_999, "{}")+"]")), plan, "more than 250000 elements"},
		{"text.prelet", recording(fmt.Sprintf(factsAnswer, `"`+strings.Repeat("x", 12<<20)+`"`)), plan, "10 MiB"},
		{"lists.prelet", recording(fmt.Sprintf(factsAnswer, "{"+someFacts+lists+"}")), plan, ""},
		{"spaces.prelet.gz", packed(t, bytes.Repeat([]byte(" "), 100<<20)), plan, "larger than 32 MiB"},
		{"members.tar.gz", packed(t, archive(t, 200_000)), plan, "does not contain it"},
		{"zeros.tar.gz", packed(t, make([]byte, 100<<20)), plan, "does not contain it"},
		{"nics.json", facts(`"nics":[` + many(1_000_000, "{}") + `]`), detect, "more than 10000 members"},
		{"deep.json", facts(`"nics":` + strings.Repeat("[", 1_000_000)), detect, "64 deep"},
		{"lists.json", facts(strings.TrimPrefix(lists, ",")), detect, ""},
		{"group.json", []byte(`{"kind":"fleet","groups":[` + many(2_000_000, "{}") + `]}`), "fleet merge FILE", "members"},
		{"groups.json", []byte(`{"kind":"fleet","groups":[` + many(249_000, "{}") + `]}`), "fleet merge FILE", ""},
		{objectFile, objects("[" + many(600_000, "{}") + "]"), asObject, "lines and commas"},
		{objectFile, objects(strings.Repeat("[", 1_000_000)), asObject, "Not YAML"},
		{objectFile, objects(strings.Repeat("- ", 900_000)), asObject, "Not YAML"},
		{objectFile, objects("1\n" + strings.Repeat("x: 1\n", 300_000)), asObject, "lines and commas"},
		{objectFile, objects("1\n" + strings.Repeat("x: 1\r", 300_000)), asObject, "lines and commas"},
		{objectFile, objects("1\n" + strings.Repeat("x: 1\u0085", 120_000)), asObject, "lines and commas"},
		{objectFile, objects("1\n" + strings.Repeat("x: 1\u2028", 120_000)), asObject, "lines and commas"},
		{objectFile, objects("\ndata:\n  kubelet: '{x: [" + many(600_000, "{}") + "]}'"), asObject, "lines and commas"},
		{"detectors.lock.json", []byte(`{"format_version":1,"detectors":[` + many(900_000, "{}") + `]}`),
			withHCL, "more than 10000 members"},
		{"a.hcl", []byte("x = [" + many(100_000, "1") + "]"), withHCL, "Too many tokens"},
		{"a.hcl", []byte("x = " + strings.Repeat("[", 19_000)), withHCL, "Brackets nest too deep"},
		{"a.prelettest.hcl", []byte("run \"x\" " + strings.Repeat("{", 100_000)), "test FILE", "limit"},
		{"a.prelet.vars", []byte("x = [" + many(100_000, "1") + "]"), withHCL, "Too many tokens"},
		{"a.txt", []byte("x = [" + many(100_000, "1") + "]"), "plan --config DIR --var-file FILE", "Too many tokens"},
		{"join.yaml", []byte("kind: JoinConfiguration\nx: [" + many(80_000, "{}") + "]"), "import FILE --out DIR/out", ""},
		{"join.json", []byte(`{"kind":"JoinConfiguration","x":` + strings.Repeat("[", 200_000)),
			"import FILE --out DIR/out", "max depth"},
	}
}

// packed returns gzipped text.
func packed(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	noError(t, z.Close())
	return b.Bytes()
}

// archive returns a tar archive of empty files.
func archive(t *testing.T, files int) []byte {
	t.Helper()
	var b bytes.Buffer
	a := tar.NewWriter(&b)
	for i := range files {
		noError(t, a.WriteHeader(&tar.Header{Name: "prelet-bundle/" + strconv.Itoa(i), Mode: 0o644}))
	}
	noError(t, a.Close())
	return b.Bytes()
}

// TestBombs: each ends with a message, with the CPU time of 100 commands about a small site, and 256 MiB.
func TestBombs(t *testing.T) {
	runBombs(t, bombs(t), 100, 256)
}

// TestAsserts: one line of a test that would take minutes and gigabytes ends by the limits of an evaluation.
func TestAsserts(t *testing.T) {
	var all []bombCase
	for _, each := range []string{
		`setproduct(range(100), range(100))`, `join("", [for b in range(1000) : "${a}-${b}"])`, `[for b in range(1000) : plan]`,
	} {
		text := `run "x" {
  hardware = "` + bareVM(t) + `"
  assert { condition = length([for a in setproduct(range(100), range(100)) : ` + each + `]) > 0 }
}
`
		all = append(all, bombCase{"a.prelettest.hcl", []byte(text), "test FILE", "This expression is too large"})
	}
	runBombs(t, all, 1000, 1024)
}

func bareVM(t *testing.T) string {
	t.Helper()
	file, err := filepath.Abs("../../testdata/hardware/facts/bare-vm.json")
	noError(t, err)

	return file
}

// measured runs a command with the memory and one processor of a user, and writes its peak to a file. On one: garbage
// collection also runs on idle ones, as long as they are idle, so that its CPU time depends on their number. Its
// errors are the caller's: a test's are its results.
func measured(peak string, args ...string) (stdout, stderr bytes.Buffer, cpu time.Duration, err error) {
	c := exec.Command("prelet-measured", args...)
	c.Env = append(os.Environ(), peakFile+"="+peak, "GOMEMLIMIT=off", "GOGC=100", "GOMAXPROCS=1")
	c.Stdout, c.Stderr = &stdout, &stderr
	err = c.Run()

	return stdout, stderr, c.ProcessState.UserTime() + c.ProcessState.SystemTime(), err
}

// measureSmall returns the CPU time of a command about a small site, the least of three.
func measureSmall(t *testing.T) time.Duration {
	t.Helper()
	dir := t.TempDir()
	osfile.Write(t, dir+"/a.hcl", []byte("stage \"detect-hw\" \"node\" {}\n"), 0o644)
	least := time.Hour
	for range 3 {
		_, stderr, cpu, err := measured(dir+"/peak", "validate", dir)
		if err != nil {
			t.Fatal(err, stderr.String())
		}
		least = min(least, cpu)
	}

	return least
}

// runBombs wants that each ends with its message, within the CPU time of so many commands about a small site, and an
// amount of memory.
func runBombs(t *testing.T, all []bombCase, maxCPU, maxMiB int) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short is set, and the race detector needs several times the memory and CPU")
	}

	if isEmulated() {
		t.Skip("an emulated processor needs several times the CPU")
	}

	small := measureSmall(t)
	t.Logf("a small site: %s", small)
	chosen := sample.New(t)
	for i, b := range all {
		if !chosen.Has(sample.Quarter(1), i) {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, b.name)
			peak := filepath.Join(t.TempDir(), "peak")
			osfile.WriteTree(t, dir, map[string]string{
				"site.hcl": "detector \"gaudi\" {}\nstage \"detect-hw\" \"node\" {}\n",
				"ca.crt":   string(osfile.Read(t, "../../examples/objects/ca.crt")),
			})
			osfile.Write(t, path, b.content, 0o644)
			named := strings.NewReplacer("FILE", path, "DIR", dir).Replace(b.command)
			results, out, cpu, failed := measured(peak, strings.Fields(named)...)

			text, err := os.ReadFile(peak)
			if err != nil {
				t.Fatal(err, out.String())
			}
			kib, _ := strconv.Atoi(string(text))
			shown := out.String()
			shown = shown[:min(len(shown), 2000)] + results.String()[:min(results.Len(), 2000)]
			t.Logf("%s: %d KiB, %s, %.200s", b.name, kib, cpu, shown)
			if limit := time.Duration(maxCPU) * small; cpu > limit || kib > maxMiB<<10 {
				t.Errorf("got %s and %d KiB, want at most %s and %d MiB", cpu, kib, limit, maxMiB)
			}
			if !strings.Contains(shown, b.want) || strings.Contains(shown, "bug in prelet") {
				t.Errorf("got %v and %s, want %q", failed, shown, b.want)
			}
			if b.want != "" && failed == nil {
				t.Error("got no error")
			}
		})
	}
}

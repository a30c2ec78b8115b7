package boot

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/prelet/prelet/internal/machine/dryrun"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/judge"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// updateVariable is not empty to write testdata/judge.want again.
const updateVariable = "PRELET_JUDGE_UPDATE"

// The verdicts on a configuration. The program and prelet's question agree in the first two.
const (
	starts  = "starts"
	refused = "refused"
	unasked = "not asked: " // a warning, and what the start does
	missed  = "missed: "
	exits   = missed + "exits"  // `config dump` accepts it, and the start does not
	noCRI   = missed + "no CRI" // the start is good, and the CRI plugin does not load
	alarm   = "FALSE ALARM"
)

// What a start may take: a good one answers within a second.
const (
	judgedStart  = 20 * time.Second
	judgedSettle = 300 * time.Millisecond // an error of a server of the CRI plugin ends it so soon
)

// judgeScript gives containerd a root and namespaces of its own, and executes it in place of itself: nothing that it
// writes is on a disk of this machine.
const judgeScript = `set -e
root=$1 image=$2 program=$3
shift 3
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$root"
cd "$root"
mkdir usr proc sys dev run tmp var var/lib
ln -s usr/bin usr/sbin usr/lib usr/lib64 .
ln -s ../run var/run
for part in "$image"/*; do
	[ "${part##*/}" = usr ] || cp -a "$part" .
done
mount --bind /usr usr
mount -o remount,ro,bind usr
touch .program dev/null dev/zero dev/random dev/urandom
mount --bind "$program" .program
for device in null zero random urandom; do
	mount --bind "/dev/$device" "dev/$device"
done
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
ip link set lo up
exec chroot . /.program "$@"
`

// judgedRuntime is a program, and the image in which prelet asks it.
type judgedRuntime struct {
	version string // "1.6"
	program string
	image   string
	root    string // an empty folder
}

// findRuntimes returns the programs that make e2e-runtime has built or downloaded, by version.
func findRuntimes(t *testing.T) (found []judgedRuntime) {
	t.Helper()
	programs, _ := filepath.Glob(filepath.Join(os.Getenv(containerdVariable), "*/containerd"))
	programs = append(programs, filepath.Join(os.Getenv(kubeVariable), "containerd/usr/bin/containerd"))
	for _, program := range programs {
		out, err := exec.Command(program, "--version").Output()
		version := regexp.MustCompile(` v?(\d+\.\d+)\.`).FindSubmatch(out)
		if err != nil || version == nil {
			t.Logf("%s is not asked: %v", program, err)
			continue
		}
		t.Logf("%s", bytes.TrimSpace(out))
		dir := t.TempDir()
		r := judgedRuntime{string(version[1]), program, dir + "/image", dir + "/root"}
		must(t, os.MkdirAll(r.image+"/usr/bin", 0o755))
		must(t, os.Mkdir(r.root, 0o755))
		text, err := os.ReadFile(program)
		must(t, err)
		must(t, os.WriteFile(r.image+"/usr/bin/containerd", text, 0o755))
		found = append(found, r)
	}

	return found
}

// begin starts the program over the image.
func (r judgedRuntime) begin(ctx context.Context, args ...string) (*exec.Cmd, *bytes.Buffer, error) {
	words := append([]string{"-c", judgeScript, "judge", r.root, r.image, r.program}, args...)
	cmd, log := exec.CommandContext(ctx, "bash", words...), &bytes.Buffer{}
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET |
			syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig: syscall.SIGKILL,
	}

	return cmd, log, cmd.Start()
}

// ask reports whether prelet's question accepts the files, and why not, or why it was not asked.
func (r judgedRuntime) ask(t *testing.T) (isAccepted bool, reason string) {
	t.Helper()
	a := dryrun.RuntimeAsker{Root: nodefile.Root(r.image), Redactor: secret.NewRedactor(), Folder: t.TempDir()}
	a.Finish(judge.FinishedRuntime{})
	raw := a.Over(nil).Ask(t.Context(), tape.ConfigDump.Question(tape.ConfigDumpReq{}))
	if raw.Fault != nil {
		return true, raw.Fault.Error()
	}
	var got tape.ConfigDumpAns
	must(t, json.Unmarshal(raw.Value, &got))

	if got.Refusal == "" {
		return true, ""
	}

	return false, got.File + ": " + got.Refusal
}

// try starts the program, and returns starts, exits or noCRI, with the reason.
func (r judgedRuntime) try(t *testing.T) (verdict, reason string) {
	t.Helper()
	runtime.LockOSThread() // with which containerd ends: another test may end a thread that is not locked
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithTimeout(t.Context(), judgedStart)
	defer cancel()
	cmd, log, err := r.begin(ctx)
	must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		_ = cmd.Process.Kill()
		<-ended
		reason = findReason(log.String(), verdict)
	}()

	conn, err := grpc.NewClient(fmt.Sprintf("unix:///proc/%d/root%s", cmd.Process.Pid, runtimeSocket),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer conn.Close()
	good := 0
	for {
		select {
		case err := <-ended:
			ended <- err
			return exits, ""
		case <-time.After(judgedSettle / 3):
		}
		conn.ResetConnectBackoff()
		_, err := runtimeapi.NewRuntimeServiceClient(conn).Status(ctx, &runtimeapi.StatusRequest{})
		switch {
		case err == nil:
			if good++; good > 3 {
				return starts, ""
			}
		case grpcstatus.Code(err) == codes.Unimplemented:
			return noCRI, ""
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return exits, ""
		}
	}
}

var (
	lastWords = regexp.MustCompile(`(?m)^(?:containerd: .*|panic: .*|.*level=fatal.*)$`)
	ofPlugin  = regexp.MustCompile(`(?m)^.*failed to load plugin.*cri.*$`)
	itsError  = regexp.MustCompile(`error="((?:[^"\\]|\\.)*)"`)
)

// findReason returns why a start failed, of its log.
func findReason(log, verdict string) string {
	pattern := lastWords
	switch verdict {
	case starts:
		return ""
	case noCRI:
		pattern = ofPlugin
	}
	line := pattern.FindString(log)
	if found := itsError.FindStringSubmatch(line); found != nil {
		line = found[1]
	}

	return cmp.Or(line, log[max(0, len(log)-300):])
}

// judge returns the verdict on the files of the image, and the reason of a disagreement.
func (r judgedRuntime) judge(t *testing.T) (verdict, reason string) {
	t.Helper()
	isAccepted, said := r.ask(t)
	start, reason := r.try(t)
	switch {
	case !isAccepted && start == starts:
		return alarm, said
	case !isAccepted:
		return refused, ""
	case said != "":
		return unasked + strings.TrimPrefix(start, missed), said
	}

	return start, reason
}

// configuration is a case of testdata/judge.txt.
type configuration struct {
	name  string
	files []txtar.File
}

// readConfigurations reads testdata/judge.txt, which describes itself.
func readConfigurations(t *testing.T) (all []configuration) {
	t.Helper()
	text, err := os.ReadFile("testdata/judge.txt")
	must(t, err)
	plain := strings.NewReplacer(
		"[CRI", "[plugins.'io.containerd.grpc.v1.cri'",
		"[RUNTIME", "[plugins.'io.containerd.cri.v1.runtime'",
		"[IMAGES", "[plugins.'io.containerd.cri.v1.images'",
		"<CR>", "\r", "<NUL>", "\x00", "<BOM>", "\ufeff", "<FF>", "\xff",
	).Replace(string(text))
	for _, part := range strings.Split(plain, "\n=== ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		archive := txtar.Parse([]byte(rest + "\n"))
		c := configuration{name, archive.Files}
		if own := string(bytes.TrimSpace(archive.Comment)); len(c.files) == 0 && own != "" {
			if !strings.HasPrefix(own, "version") {
				own = "version = 2\n" + own
			}
			c.files = []txtar.File{{Name: "conf.d/20-site.toml", Data: []byte(own + "\n")}}
		}
		all = append(all, c)
	}

	return all
}

// write makes the files of an image those of the configuration.
func (c configuration) write(t *testing.T, image string) {
	t.Helper()
	for _, folder := range []string{"/etc", "/opt"} {
		must(t, os.RemoveAll(image+folder))
	}
	usual := txtar.File{Name: "config.toml", Data: []byte("version = 2\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n")}
	for _, f := range append([]txtar.File{usual}, c.files...) {
		name, link, isLink := strings.Cut(f.Name, " -> ")
		path := image + name
		if !filepath.IsAbs(name) {
			path = image + "/etc/containerd/" + name
		}
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		switch {
		case isLink:
			must(t, os.Symlink(link, path))
		case !strings.HasSuffix(name, "/"):
			must(t, os.WriteFile(path, f.Data, 0o644))
		}
	}
}

// TestRuntimeJudge compares what prelet's question about configurations of containerd returns with a start of the same
// program: none that starts may be refused, and those that are accepted and do not start are known, in
// testdata/judge.want. The program has a root and namespaces of its own. It prints the table, and what a question
// takes.
func TestRuntimeJudge(t *testing.T) {
	runtimes := findRuntimes(t)
	if len(runtimes) == 0 || os.Getuid() != 0 {
		t.Skip("this starts containerd as root: make e2e-runtime has its versions")
	}
	cases := readConfigurations(t)
	const golden = "testdata/judge.want"
	want := readVerdicts(t, golden)
	got := make([]map[string]string, len(runtimes))
	t.Run("versions", func(t *testing.T) {
		for i, r := range runtimes {
			got[i] = map[string]string{}
			r.measure(t, cases[3]) // while nothing else runs
			t.Run(r.version, func(t *testing.T) {
				t.Parallel()
				for _, c := range cases {
					t.Run(c.name, func(t *testing.T) {
						c.write(t, r.image)
						verdict, reason := r.judge(t)
						got[i][c.name] = verdict
						expected := want[c.name][r.version]
						isNew := verdict != expected && os.Getenv(updateVariable) == ""
						if isNew || verdict == alarm {
							t.Errorf("got %s, want %s: %s", verdict, expected, reason)
						} else if reason != "" {
							t.Logf("%s: %s", verdict, reason)
						}
					})
				}
			})
		}
	})

	for i, r := range runtimes {
		counts := map[string]int{}
		for name, verdict := range got[i] {
			counts[verdict]++
			if want[name] == nil {
				want[name] = map[string]string{}
			}
			want[name][r.version] = verdict
		}
		for _, verdict := range slices.Sorted(maps.Keys(counts)) {
			t.Logf("%s of %d: %3d %s", r.version, len(cases), counts[verdict], verdict)
		}
	}
	table := formatVerdicts(cases, want)
	t.Logf("\n%s", table)
	if os.Getenv(updateVariable) != "" {
		must(t, os.WriteFile(golden, []byte(table), 0o644))
	}
}

// readVerdicts reads verdicts by case and version: the lines of a case begin with a space.
func readVerdicts(t *testing.T, file string) map[string]map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	all := map[string]map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " | ")
		all[name] = map[string]string{}
		for _, group := range strings.Split(rest, "; ") {
			versions, verdict, _ := strings.Cut(group, " ")
			for _, version := range strings.Split(versions, ",") {
				all[name][version] = strings.TrimSpace(verdict)
			}
		}
	}

	return all
}

// formatVerdicts writes a line for each case, with the versions of each verdict.
func formatVerdicts(cases []configuration, verdicts map[string]map[string]string) string {
	var out strings.Builder
	for _, c := range cases {
		groups, order := map[string][]string{}, []string{}
		for _, version := range slices.Sorted(maps.Keys(verdicts[c.name])) {
			verdict := verdicts[c.name][version]
			if groups[verdict] == nil {
				order = append(order, verdict)
			}
			groups[verdict] = append(groups[verdict], version)
		}
		var parts []string
		for _, verdict := range order {
			parts = append(parts, strings.Join(groups[verdict], ",")+" "+verdict)
		}
		fmt.Fprintf(&out, "%s | %s\n", c.name, strings.Join(parts, "; "))
	}

	return out.String()
}

// measure logs what a question takes.
func (r judgedRuntime) measure(t *testing.T, c configuration) {
	t.Helper()
	c.write(t, r.image)
	const rounds = 10
	var before, after syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_CHILDREN, &before))
	begin := time.Now()
	for range rounds {
		r.ask(t)
	}
	wall := time.Since(begin) / rounds
	must(t, syscall.Getrusage(syscall.RUSAGE_CHILDREN, &after))
	cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	t.Logf("%s: a question takes %s, and containerd %s of a CPU", r.version, wall, time.Duration(cpu/rounds))
}

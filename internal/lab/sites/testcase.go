package sites

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/lab/rehearsal"
	"github.com/prelet/prelet/internal/lab/repository"
	"github.com/prelet/prelet/internal/lab/testfile"
	"github.com/prelet/prelet/internal/lab/userfile"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/probe"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/platform/atomicfile"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// testCase is one run over one machine.
type testCase struct {
	suite *suite
	*testfile.Run
	env         *machine.Env // with a redactor of its own: a secret of one run must not change another
	machine     string       // the path of the hardware or the recording; "" where the pattern matches none
	notSearched error        // why no machine was searched for
	isOne       bool         // the run has no other machine
	isAlike     bool         // another machine of the run would have the same name of a snapshot
}

// expand returns the cases of a run: one for each machine; without a machine, a case that fails.
func (s *suite) expand(r *testfile.Run) (out []testCase) {
	machines, err := findMachines(r)
	for _, m := range machines {
		out = append(out, testCase{
			suite:   s,
			Run:     r,
			env:     s.env.WithOwnRedactor(),
			machine: m,
		})
	}
	switch len(out) {
	case 0:
		return []testCase{{suite: s, Run: r, env: s.env, notSearched: err}}
	case 1:
		out[0].isOne = !nodefile.IsGlob(r.Machines.V)
	}

	count := map[string]int{}
	for _, c := range out {
		count[c.snapshotPath()]++
	}
	for i, c := range out {
		out[i].isAlike = count[c.snapshotPath()] > 1
	}

	return out
}

// findMachines returns the paths that the pattern of a run matches, by name. Of a folder of recordings it returns
// these.
func findMachines(r *testfile.Run) (out []string, err error) {
	matches, err := repository.Glob(filepath.Dir(r.File.Name), r.Machines.V)
	if err != nil {
		return nil, err
	}
	for _, m := range matches {
		recordings, err := lab.ListRecordings(m)
		if !r.IsFrom || err != nil || recordings == nil {
			out = append(out, m)
			continue
		}
		out = append(out, recordings...)
	}

	return out, nil
}

// run plans the site over the machine, and compares the plan with the expectations of the run.
func (c testCase) run(ctx context.Context) (out testfile.MachineResult) {
	start := time.Now()
	out = testfile.MachineResult{
		File:    c.File.Name,
		Run:     c.Name,
		At:      c.At,
		Machine: c.machineName(),
	}
	defer func() { out.Took = time.Since(start) }()

	if c.machine == "" {
		failed := testfile.Failure{
			Kind:    testfile.KindInput,
			At:      c.Machines.Range,
			Summary: "No machine matches",
			Message: fmt.Sprintf("The path is relative to the test file: %s. A run over no machine would test nothing.",
				filepath.Join(filepath.Dir(c.File.Name), c.Machines.V)),
		}
		if c.notSearched != nil {
			failed.Message = fmt.Sprintf("The path is not searched: %v. Write the names of folders in place of signs, "+
				"as in "+
				"../machines/*.json.", c.notSearched)
		}
		out.Failures = []testfile.Failure{failed}
		return out
	}

	p, refused := c.plan(ctx)
	if refused != nil {
		out.Failures = []testfile.Failure{*refused}
		return out
	}
	out.Failures = c.Compare(p)
	if failed := c.compareSnapshot(p); failed != nil {
		out.Failures = append(out.Failures, *failed)
	}
	return out
}

// machineName returns the path of the machine relative to the test file.
func (c testCase) machineName() string {
	if c.machine == "" {
		return c.Machines.V
	}
	name, err := filepath.Rel(filepath.Dir(c.File.Name), c.machine)
	if err != nil {
		return c.machine
	}
	return name
}

// plan evaluates the site over the machine. The failure is about the run's own inputs.
func (c testCase) plan(ctx context.Context) (*evaluate.Plan, *testfile.Failure) {
	w, refused := c.where()
	if refused != nil {
		return nil, refused
	}
	if w.Root != "" && w.Root != rehearsal.NoRoot {
		root, err := rehearsal.CopyRoot(w.Root)
		if err != nil {
			return nil, c.refuse(c.Root.Range, "The root cannot be used", err)
		}
		defer os.RemoveAll(root)
		w.Root = root
	}
	w.Config = c.suite.siteOf[c.File].Config
	w.Repository = c.suite.given.Repository
	w.Binaries = c.suite.given.Binaries
	w.KubeletVersion = cmp.Or(c.Kubelet.V, c.suite.given.KubeletVersion)
	given := &lab.Given{
		Request: w,
		Values:  map[string]probe.Given{},
		Loaded:  c.suite.siteOf[c.File].Loaded,
		Test: &rehearsal.Source{
			Objects:   c.objects(w),
			Detectors: c.DetectorAnswers(),
			Without:   rehearsal.RemovedDevices{Addresses: c.Without.V},
			IsTest:    true,
		},
	}
	for name, text := range c.VariableTexts(given.Loaded.Site) {
		given.Values[name] = probe.Given{Text: text, Source: rehearsal.TestSource, IsFile: true}
	}
	n, err := lab.OpenMachine(c.env, given, c.machine, nil)
	if err != nil {
		return nil, c.refuse(c.Machines.Range, "The recording cannot be used", err)
	}
	defer n.Close()
	p, asked := n.Plan(ctx, nil), given.Test
	if notFound := asked.ListNotFound(ctx); len(notFound) > 0 {
		return nil, c.refuse(c.Without.Range, "The machine does not have this device",
			fmt.Errorf("%s is not in the list pci of its facts; `prelet detect -o json` shows the list",
				strings.Join(notFound, ", ")))
	}
	if f := asked.WhyNoKubelet(); f != nil {
		return nil, c.refuse(c.Kubelet.Range, "The machine has no kubelet to give this version to", f)
	}

	return p, nil
}

// where returns the machine and the inputs of the run, after checking their paths.
func (c testCase) where() (lab.Request, *testfile.Failure) {
	w := lab.Request{Where: machine.Where{Root: rehearsal.NoRoot}}
	if c.ObjectsFolder != "" {
		w.Objects = c.path(c.ObjectsFolder)
		if err := lab.CheckObjects("objects", w.Objects); err != nil {
			return w, c.refuse(c.ObjectsAt, "The folder of objects cannot be used", err)
		}
	}
	if c.IsFrom {
		w.Root = ""
		w.From = c.machine
		return w, nil
	}

	w.Hardware = c.machine
	if c.ObjectsFolder == "" && !c.HasObjects {
		w.Objects = c.suite.given.Repository.Objects
	}
	if err := lab.CheckHardware("--hardware", w.Hardware); err != nil {
		return w, c.refuse(c.Machines.Range, "The recorded machine cannot be used", err)
	}
	if c.Root.V == "" {
		return w, nil
	}
	root, err := filepath.Abs(c.path(c.Root.V))
	if err == nil {
		err = machine.CheckFolder("root", root, machine.ToMount)
	}
	if err != nil {
		return w, c.refuse(c.Root.Range, "The root cannot be used", err)
	}
	w.Root = root
	return w, nil
}

func (c testCase) refuse(at hcl.Range, summary string, err error) *testfile.Failure {
	return &testfile.Failure{
		Kind:    testfile.KindInput,
		At:      at,
		Summary: summary,
		Message: err.Error(),
	}
}

// path returns a path of the run, which is relative to its test file.
func (c testCase) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(c.File.Name), name)
}

// objects returns the objects of the run; nil where it gives none.
func (c testCase) objects(w lab.Request) tape.Source {
	switch {
	case w.Objects != "":
		return probe.Objects(w.Objects)
	case !c.HasObjects:
		return nil
	}

	data := map[string]map[string]string{}
	for name, d := range c.Objects {
		data[name] = d
	}
	return probe.ObjectsOf(c.CA, data)
}

// snapshotsFolder is the folder next to a test file that has the snapshots of its runs.
const snapshotsFolder = "snapshots"

// snapshotWidth is how many columns a snapshot fills.
const snapshotWidth = 100

// compareSnapshot compares the plan with the snapshot of the run, or writes it.
func (c testCase) compareSnapshot(p *evaluate.Plan) *testfile.Failure {
	if c.Snapshot.V == "" || len(c.Expected) > 0 || p.Diagnostics.HasErrors() {
		return nil
	}

	var text bytes.Buffer
	style := printer.Style{Width: snapshotWidth}
	shown := *p
	if len(c.suite.given.Kubelets) > 0 { // the judge of a plan is not a part of it
		shown.Assumed = slices.DeleteFunc(slices.Clone(p.Assumed), func(a evaluate.Assumed) bool {
			return a.Kind == "kubelet" && c.Kubelet.V == ""
		})
	}
	if err := printer.PlanText(&text, printer.View{Plan: &shown}, style); err != nil {
		return c.refuse(c.Snapshot.Range, "The plan cannot be printed", err)
	}
	got := c.env.Redactor.String(text.String())
	path := c.snapshotPath()
	want, err := userfile.Read(path, userfile.MaxBytes)
	switch isMissing := errors.Is(err, fs.ErrNotExist); {
	case err != nil && !isMissing:
		return c.refuse(c.Snapshot.Range, "The snapshot cannot be read", fmt.Errorf("%s: %w", path, err))
	case err == nil && unifyLines(want) == got:
		return nil
	case c.suite.update:
		if err := writeSnapshot(path, got); err != nil {
			return c.refuse(c.Snapshot.Range, "The snapshot cannot be written", err)
		}
		return nil
	case isMissing:
		return &testfile.Failure{
			Kind:    testfile.KindSnapshot,
			At:      c.Snapshot.Range,
			Summary: "The snapshot is missing",
			Message: path + " does not exist. `prelet test --update` writes it: read it before you commit it.",
		}
	}
	return &testfile.Failure{
		Kind:    testfile.KindSnapshot,
		At:      c.Snapshot.Range,
		Summary: "The plan differs from its snapshot",
		Message: path + ". `prelet test --update` writes it again: read the difference before you commit it.",
		Want:    unifyLines(want),
		Got:     got,
	}
}

// unifyLines returns text with the ends of lines that prelet writes: git may have made CR LF of them in a checkout.
func unifyLines(text []byte) string {
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

// snapshotPath returns the file of the snapshot: one for the run, or one for each machine of a glob. The slashes of a
// machine's path are hyphens, or %2F if another machine of the run, such as a-b next to a/b, would get the same file.
func (c testCase) snapshotPath() string {
	path := filepath.Join(filepath.Dir(c.File.Name), snapshotsFolder, c.Snapshot.V)
	if !c.isOne {
		name := filepath.ToSlash(c.machineName())
		if c.isAlike {
			name = strings.NewReplacer("%", "%25", "/", "%2F").Replace(name)
		} else {
			name = strings.Trim(strings.NewReplacer("/", "-", "..", "").Replace(name), "-")
		}
		path = filepath.Join(path, name)
	}
	return path + ".txt"
}

func writeSnapshot(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.File(path, 0o644, []byte(text))
}

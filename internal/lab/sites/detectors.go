package sites

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/userfile"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/detector"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/stages"
)

// Detected is a machine's hardware as sites see it, and what detectors know of it.
type Detected struct {
	evaluate.Detected
	Site        *lang.Site
	Diagnostics hcl.Diagnostics
}

// Detect reads this machine's hardware, or a recorded machine's.
func Detect(ctx context.Context, e *machine.Env, w lab.Request) (Detected, error) {
	n, err := openDetectors(e, w)
	if err != nil {
		return Detected{}, err
	}
	defer n.Close()

	found, diags := evaluate.Detect(ctx, n.Site, n.Live)
	if err := machine.CheckStopped(ctx); err != nil {
		return Detected{}, err
	}
	var failed *fault.Fault
	if errors.As(found.Failed, &failed) {
		return Detected{}, fault.HardwareFailed.Errorf("the hardware cannot be read: %s",
			stages.Sentence(failed.Why, failed.Next))
	}
	if found.Facts == nil {
		return Detected{}, lab.RefuseSite(n.Site, diags)
	}

	return Detected{
		Detected:    found,
		Site:        n.Site,
		Diagnostics: diags,
	}, nil
}

// ListDetectors returns for each detector that the site declares or that is installed whether a boot would start it on
// this machine. It starts none.
func ListDetectors(ctx context.Context, e *machine.Env, w lab.Request) ([]detector.Row, error) {
	n, err := openDetectors(e, w)
	if err != nil {
		return nil, err
	}
	defer n.Close()

	var declared []stages.Detector
	if len(n.Site.Detectors) > 0 {
		all, diags := evaluate.Detectors(ctx, n.Site, n.Live)
		if err := machine.CheckStopped(ctx); err != nil {
			return nil, err
		}
		if diags.HasErrors() {
			return nil, lab.RefuseSite(n.Site, diags)
		}
		declared = all
	}
	facts, ans, err := tape.Hardware.Ask(ctx, n.Live, tape.HardwareReq{})
	if err := machine.CheckStopped(ctx); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, fault.HardwareFailed.Errorf("the hardware cannot be read: %s", ans.Why())
	}

	return n.Detectors.Survey(ctx, declared, facts.PCI), nil
}

// openDetectors opens a machine and the site whose detectors are asked about it. If no site was named and the default
// one cannot be loaded, it is empty; a named one is refused.
func openDetectors(e *machine.Env, w lab.Request) (*lab.Node, error) {
	g, err := lab.Read(e, w)
	if err != nil {
		return nil, err
	}

	hasErrors := g.Loaded.Diags.HasErrors()
	isRecorded := w.Hardware != "" && len(w.Config) == 0
	switch {
	case hasErrors && len(w.Config) > 0:
		return nil, lab.RefuseSite(g.Loaded.Site, g.Loaded.Diags)
	case hasErrors && !isRecorded && !slices.ContainsFunc(g.Loaded.Diags, func(d *hcl.Diagnostic) bool {
		return origin.CodeOf(d) == fault.NoSite
	}):
		e.Say("the site of this node has errors, so its detectors are not asked: `prelet validate` shows them")
	}
	if hasErrors || isRecorded {
		g.Loaded = &machine.LoadedSite{Site: &lang.Site{}}
	}

	return lab.OpenWorld(e, g, nil, nil), nil
}

// LockOptions are the lock file to write.
type LockOptions struct {
	lab.Request
	Out   string      // a folder for a package's lock; "" is that of this node
	Site  bool        // into the site's own file
	Path  string      // of the program on nodes; "" is where packages put it
	Grant tape.Grants // the permissions of the program while it describes itself
}

// Locked is a detector whose program has a lock.
type Locked struct {
	Lock    tape.LockEntry
	Path    string // of the lock file
	Version string
	Allow   string // the block that a site needs to allow it; "" for none
}

// LockDetectors runs each program in the sandbox to get its description, writes its lock, and calls done before the
// next one.
func LockDetectors(
	ctx context.Context, e *machine.Env,
	o LockOptions,
	programs []string,
	done func(Locked),
) error {
	if err := o.Request.Check(); err != nil {
		return err
	}
	if o.Site && o.Out != "" {
		return fault.Usage.Errorf("--site and --out exclude each other")
	}
	if o.Path != "" && len(programs) > 1 {
		return fault.Usage.Errorf("--path is the place of one program: lock each with its own")
	}
	if err := detector.CheckNodePath(o.Path); err != nil {
		return fault.Usage.Errorf("--path: %s", err)
	}

	host := e.DetectorHost(o.Where)
	for _, program := range programs {
		l, err := lockOne(ctx, host, o, program)
		if err != nil {
			return err
		}
		done(l)
	}
	return nil
}

func lockOne(
	ctx context.Context,
	host *detector.Host,
	o LockOptions,
	program string,
) (Locked, error) {
	interpreters, err := detector.Interpreters(program)
	if err != nil {
		return Locked{}, fault.Usage.Errorf("%s", err)
	}
	grant := o.Grant
	grant.Execute = slices.Concat(grant.Execute, interpreters)
	lock, trace, err := host.Describe(ctx, program, grant)
	if err != nil {
		f := host.Failure(program, trace, err).Fault
		return Locked{}, fault.DetectorFailed.Errorf("%s", stages.Sentence(f.Why, f.Next))
	}
	isForOthers := o.Out != "" || o.Site && len(o.Config) > 0
	isElsewhere := isForOthers && o.Root == "" // the place on this machine, such as a build folder, is none of a node
	if isElsewhere || o.Path != "" {
		lock.Path = o.Path
	}
	text, path, err := lockFile(host, o, lock)
	if err == nil {
		err = userfile.MakeFolder(filepath.Dir(path))
	}
	if err != nil {
		return Locked{}, fault.CannotWrite.Errorf("%s", err)
	}
	if err := userfile.WriteReport(path, text); err != nil {
		return Locked{}, err
	}
	d, err := stages.Description(lock)
	if err != nil {
		return Locked{}, fault.Internal.Errorf("%s", err)
	}
	l := Locked{
		Lock:    lock,
		Path:    path,
		Version: d.Version,
	}
	if !d.Needs.Empty() {
		l.Allow = stages.AllowBlock(tape.Grants{}, d.Needs)
	}
	return l, nil
}

// CheckOptions are a detector and the flags of the conformance kit, whose formats they have.
type CheckOptions struct {
	Command []string // the program and its arguments
	Output  string   // text or json
	Config  string   // JSON or @FILE
	Timeout string   // of one detection
	Roots   []string // machines as trees
}

// KitResult is the result of the conformance kit, which has printed its findings.
type KitResult struct {
	Code   fault.Code // DetectorFailed where the detector breaks its contract; else ""
	Status int        // the kit's own exit status, where Code is ""
}

// CheckDetector runs the conformance kit on a detector. The kit prints to stdout and stderr by itself.
func CheckDetector(
	ctx context.Context, e *machine.Env,
	o CheckOptions,
	stdout, stderr io.Writer,
) (KitResult, error) {
	st, err := nodefile.Stat(o.Command[0])
	if err != nil {
		const missing = "no such file: name the detector's program by its path"

		return KitResult{}, nodefile.NamedFailure("", o.Command[0], missing, err)
	}
	if !st.Mode().IsRegular() {
		return KitResult{}, fault.Usage.Errorf(
			"%s is not a file: name the detector's program by its path",
			o.Command[0],
		)
	}
	status, err := e.DetectorHost(machine.Where{}).Check(ctx, o.arguments(), stdout, stderr)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return KitResult{}, fault.Usage.Errorf(
			"%s. It belongs to prelet's package; `make build` puts it next to prelet", err)
	case err != nil:
		return KitResult{}, fault.Internal.Errorf("%s", err)
	case status == 1:
		return KitResult{Code: fault.DetectorFailed}, nil
	}
	return KitResult{Status: status}, nil
}

// arguments returns the command line of the conformance kit.
func (o CheckOptions) arguments() []string {
	args := []string{"-o", o.Output, "--timeout", o.Timeout, "--detector-config", o.Config}
	for _, r := range o.Roots {
		args = append(args, "--machine", r)
	}

	args = append(args, o.Command[0])
	if len(o.Command) > 1 {
		args = append(append(args, "--"), o.Command[1:]...)
	}
	return args
}

// lockFile returns the text of a lock file with one more lock, and its path.
func lockFile(
	host *detector.Host,
	o LockOptions,
	lock tape.LockEntry,
) (text []byte, path string, err error) {
	switch {
	case o.Site:
		path = host.SiteLock()
		text, err = detector.AddToSite(path, lock)
	case o.Out != "":
		path = filepath.Join(o.Out, lock.Name+".json")
		text, err = detector.WriteFragment(lock)
	default:
		path = filepath.Join("/", o.Root, detector.Fragments, lock.Name+".json")
		text, err = detector.WriteFragment(lock)
	}
	return text, path, err
}

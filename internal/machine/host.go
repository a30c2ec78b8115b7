package machine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/bootfailure"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/machine/dryrun"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/probe/joined"
	"github.com/prelet/prelet/internal/machine/probe/kubeletbin"
	"github.com/prelet/prelet/internal/machine/probe/kubeletstate"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/plan/hostfiles"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/machineid"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
)

// The units that the packages ship.
const (
	BootUnit   = activation.BootUnit
	ApplyUnit  = activation.ApplyUnit
	VerifyUnit = activation.VerifyUnit
	SiteUnit   = "prelet-site.service"
)

// Host is the machine that a command works on: its folders and the connection to systemd. Tests pass another machine.
type Host struct {
	Root     string // "" is /
	RunDir   string
	RunRoot  nodefile.Root // RunDir is below it, and is only read; "" for the run folder of this machine
	BootID   string
	Hostname string
	Self     string // the unit that runs this process; "" for none of prelet's
	Systemd  bool   // it is the init of this machine

	Units  Manager
	Probe  Probe
	Clock  activation.Clock
	Notify Notifier
	Log    systemd.JournalLog // nil without a journal, and by hand
	// Journal opens the journal also by hand, which may return nil; nil: nothing is written to it.
	Journal func() systemd.JournalLog
	Jitter  func() float64 // in [0,1)
	// Console prints a line on the console of the machine; nil: there is none, as for a command by hand.
	Console func(priority int, line string) error

	DryRun dryrun.Run // starts the kubelet's binary; nil: it is not asked

	spans spans // of the command that writes a report
	env   *Env  // shows the waits for other processes; nil: nothing does
}

// Probe inspects the kubelet and its Node.
type Probe interface {
	activation.Probe
	// Event creates an event of the Node with the node's own identity.
	Event(ctx context.Context, e kubelet.Event) error
	// Pods returns the pods of a Node that a drain evicts and that have not ended, with the node's own identity.
	Pods(ctx context.Context, node string) ([]string, error)
}

// Manager is systemd as far as commands use it.
type Manager interface {
	activation.Units
	Start(ctx context.Context, unit string, wait time.Duration) (string, error)
	IsRestarting(ctx context.Context, unit string) (bool, error)
	// Describe sets the description of a unit until the next boot.
	Describe(ctx context.Context, unit, text string) error
	Version(ctx context.Context) string // "" unknown
	Close()
}

// Notifier is the notify socket.
type Notifier interface {
	Status(line string) error
	Extend(d time.Duration) error
}

// RunDir is the run folder.
const RunDir = "/run/prelet"

// Host returns the machine that the command works on: e.On, or else this one. The caller closes its Units.
func (e *Env) Host() *Host {
	if e.On != nil {
		return e.On
	}
	name, _ := os.Hostname() // then the Node object is not asked for
	h := &Host{
		RunDir:   RunDir,
		BootID:   systemd.OwnBootID(e.Getenv),
		Hostname: name,
		Systemd:  systemd.IsRunning(),
		Units:    systemd.NewConn(),
		Clock:    systemd.Clock{},
		Notify:   systemd.Notifier{},
		Jitter:   rand.Float64,
		DryRun:   kubeletbin.DryRun.Run,
		env:      e,
	}
	h.Probe = kubeletstate.Probe{Now: time.Now, BootID: h.BootID, Credentials: e.Credentials(Where{})}
	h.Journal = func() systemd.JournalLog { return systemd.NewJournalLog(e.Redactor.String) }
	if unit := systemd.OwnUnit(); isPreletUnit(unit) {
		h.Self = unit
		h.Console = systemd.PrintOnConsole
		h.Log = h.Journal() // by hand, the printed output is enough
		if h.Log != nil && e.Journaled != nil {
			e.Journaled()
		}
	}
	return h
}

// HostOf returns the machine whose files are below a root, and where no unit is touched; "" is the machine of the
// command. The root of the running system is refused for a command that writes. The caller closes its Units.
func (e *Env) HostOf(root string, writes bool) (*Host, error) {
	w := Where{Root: root}
	if err := w.UseRoot(); err != nil {
		return nil, err
	}
	if w.Root == "" {
		return e.Host(), nil
	}
	if writes {
		if err := e.RefuseRunningRoot(w.Root); err != nil {
			return nil, err
		}
	}

	return &Host{
		Root:    w.Root,
		RunDir:  RunDir,
		RunRoot: nodefile.Root(w.Root),
		BootID:  systemd.OwnBootID(e.Getenv),
		Units:   noUnits{},
		Clock:   systemd.Clock{},
		env:     e,
	}, nil
}

// IsBelow reports whether the machine does not run: its files are below a root.
func (h *Host) IsBelow() bool { return h.RunRoot != "" }

// noUnits is a systemd that cannot be asked, because it is that of another machine. Only Look is ever called.
type noUnits struct{ Manager }

func (noUnits) Look(context.Context, string) (activation.Unit, error) {
	return activation.Unit{}, errors.New("this is not the systemd of the node")
}

func (noUnits) Close() {}

// isPreletUnit reports whether a unit runs prelet on a node.
func isPreletUnit(unit string) bool {
	return unit == BootUnit || unit == ApplyUnit || unit == VerifyUnit
}

// IsInUnit reports whether a unit runs this process.
func IsInUnit(unit string) bool { return systemd.OwnUnit() == unit }

// WaitClock returns nil as soon as the clock is set. When ctx ends, it returns an error.
func WaitClock(ctx context.Context) error { return systemd.WaitClock(ctx) }

// StateFolder is prelet's own folder on a node.
const StateFolder = "/var/lib/prelet"

// StateDir returns the path of prelet's own folder, below Root.
func (h *Host) StateDir() string { return filepath.Join("/", h.Root, StateFolder) }

// Gate returns the gate, which keeps the kubelet from starting.
func (h *Host) Gate() activation.Gate {
	return activation.Gate{Root: h.RunRoot, Dir: h.RunDir, BootID: h.BootID}
}

// LoadReport reads the report of the last run.
func (h *Host) LoadReport() (*report.Status, error) { return report.LoadBelow(h.RunRoot, h.RunDir) }

// HasBegun reports whether a prelet has begun a run in this boot.
func (h *Host) HasBegun() bool {
	s, err := h.LoadReport()

	return err == nil && s.BootID == h.BootID
}

// WhyNotStarted returns why systemd could not start prelet.service in this boot.
func (h *Host) WhyNotStarted(ctx context.Context) bootfailure.Failure {
	if !h.Systemd {
		return bootfailure.Failure{}
	}

	return bootfailure.FindFailure(ctx, h.Units, h.HasBegun())
}

// KubeletUnit is KubeletUnitOf the generations of the host, which it opens.
func (h *Host) KubeletUnit() string {
	store, err := generation.OpenReadOnly(h.StoreOptions())
	if err != nil {
		return h.KubeletUnitOf(nil)
	}
	defer store.Close()

	return h.KubeletUnitOf(store)
}

// KubeletUnitOf returns the kubelet's unit: of the generation in place, or else as the site names it without a machine.
// The store may be nil.
func (h *Host) KubeletUnitOf(store *generation.Store) string {
	if unit := commit.UnitInPlace(store, h.Machine(store)); unit != "" {
		return unit
	}

	o := SiteOptions("")
	o.Root = h.Root
	if d, err := ReadDelivery(h.StateDir()); err == nil && d.Digest != "" {
		o.Pulled = PulledFolder(h.StateDir(), d.Digest)
	}
	site, _ := lang.Load(lang.OS(), o)

	return hostfiles.KubeletUnit(site)
}

// IsOff reports whether prelet is turned off on the kernel command line.
func (h *Host) IsOff() bool {
	return nodefile.Root(h.Root).ReadCommandLine()["prelet"] == "off"
}

// BootToLook returns the boot in which a look for a site must have succeeded; "" below a root.
func (h *Host) BootToLook() string {
	if h.IsBelow() {
		return ""
	}

	return h.BootID
}

// Lock opens the generations for writing.
func (h *Host) Lock(ctx context.Context) (*generation.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, LockTimeout)
	defer cancel()
	defer h.env.Wait("the lock of another prelet", time.Now().Add(LockTimeout))()

	return generation.Open(ctx, h.StoreOptions())
}

// numberInPlace returns the generation on which this boot has opened the gate; 0 for none.
func (h *Host) numberInPlace() int {
	gen, _, err := h.Gate().State()
	if err != nil {
		return 0
	}

	return max(0, gen)
}

// StoreOptions returns the location of the generations and the clocks.
func (h *Host) StoreOptions() generation.StoreConfig {
	return generation.StoreConfig{
		Root:    h.Root,
		Dir:     h.StateDir(),
		Now:     h.Clock.Now,
		Sleep:   h.Clock.Sleep,
		BootID:  h.BootID,
		InPlace: h.numberInPlace(),
		Mono:    func() int64 { return h.Clock.Monotonic().Microseconds() },
		Synced: func(path string, began time.Time, took time.Duration) {
			h.spans.add(report.KindSync, path, began, took)
		},
	}
}

// StartReport starts the report of a command that writes. With again, it adds to the report of an earlier process of
// this boot.
func (e *Env) StartReport(h *Host, again bool) *report.Reporter {
	rep, err := report.New(report.ReporterConfig{
		Dir:      h.RunDir,
		BootID:   h.BootID,
		Unit:     h.Self,
		Version:  e.Version,
		Now:      h.Clock.Now,
		Mono:     h.Clock.Monotonic,
		Redact:   e.Redactor.String,
		Notify:   h.Notify.Status,
		Log:      h.Log,
		Continue: again,
	})
	if err != nil { // a command goes on without its report
		e.Say(err.Error())
	}
	h.spans.report = rep.Span
	return rep
}

// CertifiedNode returns the node in the certificate of kubelet.conf, and whether it is older than this machine's id.
func (h *Host) CertifiedNode() (node string, isOld bool) {
	n := joined.Reader{Root: nodefile.Root(h.Root), Now: h.Clock.Now}
	id := n.Identity()

	return id.Node, id.Before(n.MachineSince())
}

// WhyNotJoined returns why the files of this node are not those of a node that has joined as this machine, or "".
func (h *Host) WhyNotJoined() string {
	n := joined.Reader{Root: nodefile.Root(h.Root), Now: h.Clock.Now}
	id := n.Identity()
	hasJoined, why := id.Joined()
	switch {
	case !hasJoined:
		return why
	case id.Before(n.MachineSince()):
		return joined.Conf + " is older than this machine's id"
	}

	return ""
}

// DescribeOtherMachine returns how a Node is that of another machine than the one here; "" where nothing shows that.
func DescribeOtherMachine(n kubelet.NodeObject, here machineid.Hashes) string {
	if !here.IsOther(machineid.OfNode(n.MachineID, n.SystemUUID)) {
		return ""
	}

	at := ""
	if n.Address != "" {
		at = ", at " + n.Address
	}

	return fmt.Sprintf(
		"node %s is another machine%s: two machines run under one name, and each writes over the "+
			"other's state; give one of them another name (prelet explain code/%s)",
		n.Name,
		at,
		fault.OtherMachine,
	)
}

// CreateRunDir creates the run folder. The units have it from systemd.
func (h *Host) CreateRunDir() error {
	if err := os.MkdirAll(h.RunDir, 0o755); err != nil {
		return fault.CannotWrite.Errorf("%s: %s; prelet changes a node as root only "+
			"(with --root DIR, files below a folder of yours)", h.RunDir, err)
	}
	return nil
}

// RefuseRunningRoot refuses a --root that is the running system's: its kubelet would read files that change under it.
// Where systemd is not the init, as where an image is built, no unit runs.
func (e *Env) RefuseRunningRoot(root string) error {
	running := systemd.IsRunning()
	if e.On != nil {
		running = e.On.Systemd
	}
	if !running {
		return nil
	}
	here, err := nodefile.Stat("/")
	if err != nil {
		return fault.Internal.Errorf("--root %s: is it the running system? %s", root, err)
	}
	if there, err := nodefile.Stat(root); err == nil && os.SameFile(here, there) {
		return fault.Usage.Errorf("--root %s is the running system, "+
			"whose kubelet would read files while they change: leave --root out", root)
	}
	return nil
}

// LockNode creates the run folder and takes the lock, for a command that changes the node.
func (h *Host) LockNode(ctx context.Context) (*generation.Store, error) {
	if !h.IsBelow() {
		defer h.ExtendTimeout(LockTimeout + KeepAlive)()
		if err := h.CreateRunDir(); err != nil {
			return nil, err
		}
	}
	store, err := h.Lock(ctx)

	return store, err
}

// LockTimeout is how long a command waits for another prelet.
const LockTimeout = 30 * time.Second

const (
	KeepAlive = 30 * time.Second
	// MaxLoading is the time from the start of a run to its first stage on a slow machine. A read of a file has
	// nodefile.Patience.
	MaxLoading = 3 * time.Minute
	// MaxPlanning is more than the longest deadline of a site, 5 minutes, and what follows it: an expression has 30
	// seconds, and each read of a file nodefile.Patience.
	MaxPlanning = 8 * time.Minute
)

// ExtendTimeout extends the unit's start timeout, now and until stop is called, or until most is over: then systemd
// ends a run that hangs, and repeats it.
func (h *Host) ExtendTimeout(most time.Duration) (stop func()) {
	_ = h.Notify.Extend(3 * KeepAlive)
	t := time.NewTicker(KeepAlive)
	done := make(chan struct{})
	began := time.Now()
	go func() {
		for time.Since(began) < most {
			select {
			case <-t.C:
				_ = h.Notify.Extend(3 * KeepAlive)
			case <-done:
				return
			}
		}
	}()
	return func() { t.Stop(); close(done) }
}

// LastGoodFile is the name of the file in prelet's folder with which prelet-fallback.service finds out, without
// prelet, whether the files in place are those of the last good generation: sha256sum checks it.
const LastGoodFile = "last-good"

// The priorities of lines in the journal and on the console, as in syslog(3).
const (
	ErrPriority     = 3
	WarningPriority = 4
	noticePriority  = 5
	InfoPriority    = 6
)

// sayWait prints that a command waits; a boot prints it on the console, where nothing else says why it takes long.
func (e *Env) sayWait(line string) {
	print, self := systemd.PrintOnConsole, systemd.OwnUnit()
	if e.On != nil {
		print, self = e.On.Console, e.On.Self
	}
	if self == BootUnit && print(noticePriority, FitConsole("prelet: "+e.Redactor.String(line))) == nil {
		return // the journal has it, too
	}

	e.Say(line)
}

// consoleLimit is the longest line for the console, in characters: three lines of 80 columns.
const consoleLimit = 240

// FitConsole returns a line for the console, with the next step.
func FitConsole(line string) string {
	const next = " (prelet status)"

	return secret.Cut(texts.Escape(strings.Join(strings.Fields(line), " ")), consoleLimit-len(next)) + next
}

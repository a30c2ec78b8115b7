package app

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/check"
	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/doctor"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/printer"
	"github.com/prelet/prelet/internal/probe"
	"github.com/prelet/prelet/internal/report"
)

// BundleOptions are the node and the file of a bundle.
type BundleOptions struct {
	Where
	File   string    // NAME.tar.gz; "-" is Stdout
	Stdout io.Writer // gets the bundle, byte for byte

	// Run runs a command line of prelet with the redactor of this command and returns its output.
	Run func(args []string) Output
}

// Output is the exit status and the output of a command line.
type Output struct {
	Code           fault.Code // "" where it succeeded
	Stdout, Stderr string
}

// Bundled is the result of a bundle.
type Bundled struct {
	Parts   []string // names of the files in it
	Missing []string // what could not be added, with the reason
}

// recordingName is the recording in a bundle. The standard error of the command of a file is in a file of the same name
// with messages at its end.
const (
	recordingName = "recording.prelet"
	messages      = ".messages"
)

// The name of a bundle ends in bundleSuffix, and its files are in bundleFolder.
const (
	bundleSuffix = ".tar.gz"
	bundleFolder = "prelet-bundle/"
)

// maxBundled limits a recording in a bundle, in bytes.
const maxBundled = 64 << 20

// bundleCommand is a command whose output is in a bundle.
type bundleCommand struct {
	file string // in the bundle
	args []string
}

// listCommands returns the commands of a bundle, except for its recording command.
func (o BundleOptions) listCommands() []bundleCommand {
	root := (&Where{Root: o.Root}).flags()

	return []bundleCommand{
		{"version.txt", []string{"version"}},
		{"detectors.json", []string{"detectors", "list", "-o", "json"}},
		{"history.json", append([]string{"history", "-o", "json"}, root...)},
		{"analyze.txt", append([]string{"analyze", "blame"}, root...)},
	}
}

// listPlans returns the commands that plan from the recording, so that the cluster is asked once.
func listPlans(recording string) []bundleCommand {
	return []bundleCommand{
		{"plan.txt", []string{"plan", "--from", recording}},
		{"plan.json", []string{"plan", "--from", recording, "-o", "json"}},
	}
}

// Bundle collects the parts of a report of a bug: the outputs of other commands, the status and the journal of this
// boot. It contains no secrets: each text passes the redactor, which then knows the secrets that the commands have
// read. A part that fails is named in the bundle, and the others are collected.
func (e *Env) Bundle(ctx context.Context, o BundleOptions) (Bundled, error) {
	if o.File != "-" && !isBundle(o.File) {
		return Bundled{}, failure(fault.Usage, "%s: a bundle's name ends in .tar.gz; - is standard output", o.File)
	}
	if err := o.Where.check(); err != nil {
		return Bundled{}, err
	}
	work, err := os.MkdirTemp("", "prelet-bundle-")
	if err != nil {
		return Bundled{}, failure(fault.CannotWrite, "%s", err)
	}
	defer os.RemoveAll(work)

	parts := bundle{modified: time.Now(), work: work + "/"}
	site := e.learnSecrets(o.Where)
	if err := e.addOutputs(ctx, o, &parts, filepath.Join(work, recordingName)); err != nil {
		return Bundled{}, err
	}
	if !parts.has(recordingName) {
		for _, f := range site.Files {
			parts.add(filepath.Join("site", filepath.Clean("/"+f.Name)), e.Redactor.String(f.Text))
		}
	}
	e.addRunFiles(ctx, o.Root, &parts)
	parts.add("README.txt", e.Redactor.String(parts.describe()))

	if err := WritePage(o.File, o.Stdout, parts.encode); err != nil {
		return Bundled{}, err
	}

	return Bundled{Parts: parts.names(), Missing: parts.missing}, nil
}

// learnSecrets adds the credentials of the node to the redactor: the commands of a bundle do so only if the site is
// valid, and status and journal may contain them in any case. It returns the site, which may have errors.
func (e *Env) learnSecrets(w Where) *lang.Site {
	site, _ := w.load(nil, e.Version)
	live := probe.New(probe.Options{
		Root:        w.Root,
		Site:        site,
		Redactor:    e.Redactor,
		Credentials: e.credentials(w),
	})
	defer live.Close()
	live.LearnSecrets()

	return site
}

// addOutputs adds a recording, which is written to a file, the outputs of the other commands and the findings of
// doctor. The only error is that the command was stopped.
func (e *Env) addOutputs(ctx context.Context, o BundleOptions, parts *bundle, recording string) error {
	reply := o.Run(append([]string{"record", recording}, o.Where.flags()...))
	parts.add(recordingName+messages, reply.Stdout+reply.Stderr)

	commands := o.listCommands()
	if text, err := nodefile.ReadFile(recording, maxBundled); err == nil {
		parts.add(recordingName, string(text))
		commands = append(commands, listPlans(recording)...)
	} else {
		reason := errors.New("the recording failed; " + recordingName + messages + " has the reason")
		parts.miss(recordingName, reason)
		for _, c := range listPlans(recording) {
			parts.miss(c.file, reason)
		}
	}

	for _, c := range commands {
		if err := checkStopped(ctx); err != nil {
			return err
		}

		reply := o.Run(c.args)
		parts.add(c.file+messages, reply.Stderr)
		if reply.Stdout == "" || reply.Code == fault.Usage {
			parts.miss(c.file, errors.New("the command failed; "+c.file+messages+" has the reason"))
			continue
		}
		parts.add(c.file, reply.Stdout)
	}
	e.addFindings(ctx, o.Where, parts)

	return checkStopped(ctx)
}

// addFindings adds the findings of doctor. Those about what an image must not contain are left out: a node has it.
func (e *Env) addFindings(ctx context.Context, w Where, parts *bundle) {
	found, err := e.Doctor(ctx, w)
	if w.Root != "" {
		found.Findings = slices.DeleteFunc(found.Findings, func(f check.Finding) bool {
			return slices.Contains(doctor.Checks(check.Leftovers), f.Check)
		})
	}

	const name = "doctor.json"
	var text strings.Builder
	if err = cmp.Or(err, printer.WriteDocument(&text, found, e.Redactor)); err != nil {
		parts.miss(name, err)
		return
	}
	parts.add(name, text.String())
}

// addRunFiles adds the files of the run folder and, unless below a root, the journal of this boot.
func (e *Env) addRunFiles(ctx context.Context, root string, parts *bundle) {
	dir := runDir
	if e.On != nil && root == "" {
		dir = e.On.RunDir
	}
	for _, name := range []string{report.StatusFile, report.MetricsFile} {
		text, err := nodefile.Root(root).ReadFile(filepath.Join(dir, name), nodefile.Max)
		if err != nil {
			parts.miss(name, err)
			continue
		}
		parts.add(name, e.Redactor.String(string(text)))
	}

	if root != "" || !systemd.IsRunning() {
		parts.miss("journal.txt", errors.New("this is not a booted node"))
		return
	}
	text, err := systemd.BootLog(ctx, BootUnit, ApplyUnit, VerifyUnit, activation.DefaultUnit)
	if err != nil {
		parts.miss("journal.txt", err)
	}
	parts.add("journal.txt", e.Redactor.String(text))
}

// flags returns the command line for the same node.
func (w *Where) flags() (args []string) {
	add := func(flag string, values ...string) {
		for _, value := range values {
			if value != "" {
				args = append(args, flag, value)
			}
		}
	}
	add("--config", w.Config...)
	add("--root", w.Root)
	add("--hardware", w.Hardware)
	add("--objects", w.Objects)
	add("--var", w.Variables...)

	return args
}

// bundle are the files of a bundle, in order.
type bundle struct {
	modified time.Time
	work     string // the folder that the recording is written to, which readers do not have
	files    []bundleFile
	missing  []string
}

type bundleFile struct{ name, text string }

// add adds a text that is not empty.
func (b *bundle) add(name, text string) {
	if text != "" {
		text = strings.ReplaceAll(text, b.work, "")
		b.files = append(b.files, bundleFile{name, text})
	}
}

func (b *bundle) has(name string) bool {
	return slices.ContainsFunc(b.files, func(f bundleFile) bool {
		return f.name == name
	})
}

func (b *bundle) miss(name string, err error) {
	b.missing = append(b.missing, name+": "+err.Error())
}

func (b *bundle) names() (names []string) {
	for _, f := range b.files {
		names = append(names, f.name)
	}
	return names
}

// describe returns the text of README.txt.
func (b *bundle) describe() string {
	lines := []string{
		"A bundle of prelet for a report of a bug. It contains no secrets of this node, and no serial numbers, uuids",
		"or MAC addresses; it contains host names, IP addresses, the site and the cluster's ConfigMaps. Secrets of",
		"other programs have no mark: read the journal and the kubelet's flags before you send it.",
		"",
		"`prelet plan --from THIS.tar.gz` makes the same plan on another machine, unless a credential was hidden in",
		"what the plan is made from, and `prelet report --from THIS.tar.gz --html FILE` makes a page with the times",
		"of the last run. NAME.messages is what the command of NAME printed to standard error. (sensitive) replaces",
		"secrets.",
		"",
	}
	lines = append(lines, b.names()...)
	if len(b.missing) > 0 {
		lines = append(lines, "", "Not here:")
		lines = append(lines, b.missing...)
	}

	return strings.Join(lines, "\n") + "\n"
}

// encode writes a .tar.gz with one folder.
func (b *bundle) encode(w io.Writer) error {
	zip := gzip.NewWriter(w)
	archive := tar.NewWriter(zip)
	for _, f := range b.files {
		header := tar.Header{
			Name:    bundleFolder + f.name,
			Mode:    0o600,
			Size:    int64(len(f.text)),
			ModTime: b.modified,
		}
		if err := archive.WriteHeader(&header); err != nil {
			return err
		}
		if _, err := io.WriteString(archive, f.text); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}

	return zip.Close()
}

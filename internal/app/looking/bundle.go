package looking

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/app/bundle"
	"github.com/prelet/prelet/internal/app/userfile"
	"github.com/prelet/prelet/internal/check"
	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/doctor"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/printer"
	"github.com/prelet/prelet/internal/report"
	"github.com/prelet/prelet/internal/world"
)

// BundleOptions are the node and the file of a bundle.
type BundleOptions struct {
	app.Where
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

// messages is the end of the name of a file with the standard error of the command of another file.
const messages = ".messages"

// bundleCommand is a command whose output is in a bundle.
type bundleCommand struct {
	file string // in the bundle
	args []string
}

// listCommands returns the commands of a bundle, except for its recording command.
func (o BundleOptions) listCommands() []bundleCommand {
	root := flags((&app.Where{Root: o.Root}))

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
func Bundle(ctx context.Context, e *app.Env, o BundleOptions) (Bundled, error) {
	if o.File != "-" && !bundle.IsNamed(o.File) {
		return Bundled{}, fault.Usage.Errorf("%s: a bundle's name ends in .tar.gz; - is standard output", o.File)
	}
	if err := o.Where.Check(); err != nil {
		return Bundled{}, err
	}
	work, err := os.MkdirTemp("", "prelet-bundle-")
	if err != nil {
		return Bundled{}, fault.CannotWrite.Errorf("%s", err)
	}
	defer os.RemoveAll(work)

	parts := bundle.Bundle{Modified: time.Now(), Work: work + "/"}
	site := learnSecrets(e, o.Where)
	if err := addOutputs(ctx, e, o, &parts, filepath.Join(work, bundle.RecordingName)); err != nil {
		return Bundled{}, err
	}
	if !parts.Has(bundle.RecordingName) {
		for _, f := range site.Files {
			parts.Add(filepath.Join("site", filepath.Clean("/"+f.Name)), e.Redactor.String(f.Text))
		}
	}
	addRunFiles(ctx, e, o.Root, &parts)
	parts.Add("README.txt", e.Redactor.String(parts.Describe()))

	if err := userfile.WritePage(o.File, o.Stdout, parts.Encode); err != nil {
		return Bundled{}, err
	}

	return Bundled{Parts: parts.Names(), Missing: parts.Missing}, nil
}

// learnSecrets adds the credentials of the node to the redactor: the commands of a bundle do so only if the site is
// valid, and status and journal may contain them in any case. It returns the site, which may have errors.
func learnSecrets(e *app.Env, w app.Where) *lang.Site {
	site, _ := app.Given{Where: w}.Load(e.Version)
	e.LearnCredentials(w, site)

	return site
}

// addOutputs adds a recording, which is written to a file, the outputs of the other commands and the results of
// doctor. The only error is that the command was stopped.
func addOutputs(ctx context.Context, e *app.Env, o BundleOptions, parts *bundle.Bundle, recording string) error {
	reply := o.Run(append([]string{"record", recording}, flags(&o.Where)...))
	parts.Add(bundle.RecordingName+messages, reply.Stdout+reply.Stderr)

	commands := o.listCommands()
	if text, err := nodefile.ReadFile(recording, world.MaxRecording); err == nil {
		parts.Add(bundle.RecordingName, string(text))
		commands = append(commands, listPlans(recording)...)
	} else {
		reason := errors.New("the recording failed; " + bundle.RecordingName + messages + " has the reason")
		parts.Miss(bundle.RecordingName, reason)
		for _, c := range listPlans(recording) {
			parts.Miss(c.file, reason)
		}
	}

	for _, c := range commands {
		if err := app.CheckStopped(ctx); err != nil {
			return err
		}

		reply := o.Run(c.args)
		parts.Add(c.file+messages, reply.Stderr)
		if reply.Stdout == "" || reply.Code == fault.Usage {
			parts.Miss(c.file, errors.New("the command failed; "+c.file+messages+" has the reason"))
			continue
		}
		parts.Add(c.file, reply.Stdout)
	}
	addChecks(ctx, e, o.Where, parts)

	return app.CheckStopped(ctx)
}

// addChecks adds the results of doctor. Those about what an image must not contain are left out: a node has it.
func addChecks(ctx context.Context, e *app.Env, w app.Where, parts *bundle.Bundle) {
	found, err := Doctor(ctx, e, w)
	if w.Root != "" {
		found.Results = slices.DeleteFunc(found.Results, func(f check.Result) bool {
			return slices.Contains(doctor.Checks(check.Leftovers), f.Check)
		})
	}

	const name = "doctor.json"
	var text strings.Builder
	if err = cmp.Or(err, printer.WriteDocument(&text, found, e.Redactor)); err != nil {
		parts.Miss(name, err)
		return
	}
	parts.Add(name, text.String())
}

// addRunFiles adds the files of the run folder and, unless below a root, the journal of this boot.
func addRunFiles(ctx context.Context, e *app.Env, root string, parts *bundle.Bundle) {
	dir := app.RunDir
	if e.On != nil && root == "" {
		dir = e.On.RunDir
	}
	for _, name := range []string{report.StatusFile, report.MetricsFile} {
		text, err := nodefile.Root(root).ReadFile(filepath.Join(dir, name), nodefile.Max)
		if err != nil {
			parts.Miss(name, err)
			continue
		}
		parts.Add(name, e.Redactor.String(string(text)))
	}

	if root != "" || !systemd.IsRunning() {
		parts.Miss("journal.txt", errors.New("this is not a booted node"))
		return
	}
	text, err := systemd.BootLog(ctx, app.BootUnit, app.ApplyUnit, app.VerifyUnit, activation.DefaultUnit)
	if err != nil {
		parts.Miss("journal.txt", err)
	}
	parts.Add("journal.txt", e.Redactor.String(text))
}

// flags returns the command line for the same node.
func flags(w *app.Where) (args []string) {
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

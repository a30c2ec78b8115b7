// Package dryrun asks the binaries of a kubelet and of containerd whether they accept a plan, before any of its files
// is written: Asker for the kubelet's command line and configuration, RuntimeAsker for containerd's files. It reads
// the files that the two read, those of their units too, and the credentials in files of the plan. Package kubeletbin
// starts the binaries, and puts these files into a private folder that it removes.
package dryrun

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe"
	"github.com/prelet/prelet/internal/machine/probe/kubeletbin"
	"github.com/prelet/prelet/internal/machine/unitflags"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/judge"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/stages"
)

// Run starts a binary.
type Run func(kubeletbin.DryRun, context.Context) (kubeletbin.Verdict, error)

// Asker answers whether a binary accepts the kubelet of a plan. Finish must be called before the question.
type Asker struct {
	Binary func() *kubeletbin.Binary
	Run    Run
	IsRun  bool // the plan is that of a run: the binary is not asked again if nothing has changed
	// Of the node whose files the kubelet reads; Secret is nil for another machine, of which only the plan is known.
	Root   nodefile.Root
	Secret func(name string) ([]byte, error)
	Redact func(string) string
	Folder string // see kubeletbin.DryRun
	// IsImage is set for the program of another root: it may run on its own machine only.
	IsImage bool

	mu       sync.Mutex
	finished judge.FinishedKubelet
	wasAsked bool
	digest   string
}

// Askers ask kubelets' binaries about a plan, by version; "" is the installed one. None: no binary is asked.
type Askers map[string]*Asker

// AskBinaries returns an asker for each binary, by version. Askers know only the plan's part of the node.
func AskBinaries(binaries map[string]*kubeletbin.Binary, redact func(string) string) Askers {
	all := Askers{}
	for version, binary := range binaries {
		all[version] = &Asker{
			Binary: func() *kubeletbin.Binary { return binary },
			Run:    kubeletbin.DryRun.Run,
			Redact: redact,
		}
	}

	return all
}

// Finish gives all the kubelet of a plan.
func (all Askers) Finish(k judge.FinishedKubelet) {
	for _, a := range all {
		a.Finish(k)
	}
}

// Ask implements tape.Source: it answers for the binary.
func (a *Asker) Ask(ctx context.Context, q tape.Question) tape.Answer {
	return tape.Adapters{
		tape.DryRun.Adapt(a.Answer),
		tape.Accepts.Adapt(func(ctx context.Context, _ tape.AcceptsReq) tape.Answer {
			return probe.AnswerAccepts(ctx, a.Binary(), true)
		}),
	}.Ask(ctx, q)
}

// Digest returns the digest of the accepted command line and files; "" for none.
func (a *Asker) Digest() string {
	a.mu.Lock()
	defer a.mu.Unlock()

	return a.digest
}

// WasAsked reports whether a plan has asked for the verdict.
func (a *Asker) WasAsked() bool {
	a.mu.Lock()
	defer a.mu.Unlock()

	return a.wasAsked
}

// Finish takes the kubelet of a plan.
func (a *Asker) Finish(k judge.FinishedKubelet) {
	a.mu.Lock()
	defer a.mu.Unlock()

	a.finished = k
}

// Answer returns the verdict of the binary.
func (a *Asker) Answer(ctx context.Context, _ tape.DryRunReq) tape.Answer {
	a.mu.Lock()
	k := a.finished
	a.wasAsked = true
	a.digest = ""
	a.mu.Unlock()

	binary := a.Binary()
	var v kubeletbin.Verdict
	run, err := a.prepare(ctx, k)
	digest := run.Digest()
	switch {
	case err != nil:
	case a.IsRun && digest == binary.Accepted():
		v.Accepted = true
	default:
		run.Program = binary.File()
		v, err = a.Run(run, ctx)
	}
	if errors.Is(err, unitflags.ErrOtherProgram) || errors.Is(err, unitflags.ErrNoCommand) {
		return tape.Failure(fault.Unread, err.Error(), "")
	}
	if err == nil && binary.IsReplaced() {
		err = errors.New("it was replaced while it was asked")
	}
	if err != nil {
		return tape.Failure(fault.KubeletMachine, a.Redact(binary.Path()+": "+err.Error()), "")
	}
	if v.Broken != "" {
		v.Broken = cmp.Or(nodefile.Root("").WhyNotExecutable(binary.File()), v.Broken)
	}
	switch {
	case v.Broken != "" && a.IsImage:
		return tape.Failure(fault.Unread, v.Broken, "")
	case v.Broken != "" && a.Secret == nil: // of --kubelet, for another machine
		return tape.Failure(fault.KubeletMachine, binary.Path()+": "+v.Broken, "")
	}

	if v.Accepted {
		a.keep(digest)
	}

	return tape.DryRun.Answer(tape.DryRunAns{
		Accepted: v.Accepted,
		Refusal:  a.Redact(v.Refusal),
		Broken:   a.Redact(v.Broken),
		Program:  binary.Path(),
	})
}

func (a *Asker) keep(digest string) {
	a.mu.Lock()
	defer a.mu.Unlock()

	a.digest = digest
}

// prepare returns the dry run of a kubelet. On its own node, its command line is that of the unit with all environment
// files, which a plan does not read; for another machine, it has only the words that the plan knows.
func (a *Asker) prepare(ctx context.Context, k judge.FinishedKubelet) (run kubeletbin.DryRun, err error) {
	planned, err := readPlanned(k.Files, a.Secret)
	if err != nil {
		return run, err
	}

	words := k.Words
	if a.Secret == nil {
		words = addConfig(k)
	}
	run = kubeletbin.DryRun{Folder: a.Folder}
	if a.Secret != nil {
		line, err := unitflags.KubeletUnit{Root: a.Root, Name: k.Unit, Planned: planned}.Read()
		if err != nil {
			return run, err
		}
		words, run.Environment, k.Start = line.Words, line.Variables, line.Folder
	}
	run.Words = words
	if a.Secret == nil && a.knowsFlag(ctx, cgroupFlag) { // this machine's control groups do not count
		run.Words = append([]kubelet.Word{{Text: "--" + cgroupFlag + "=false"}}, words...)
	}
	flags := kubelet.FlagsOf(run.Words)

	if file := flags.LookupPath(k.Start, "config"); file != "" {
		run.Config = planned[file]
		if text, f := a.Root.Bytes(file); run.Config == nil && a.Secret != nil && f == nil {
			run.Config = text
		} else if run.Config == nil {
			run.Config = encode(k.Config)
		}
	}
	if folder := flags.LookupPath(k.Start, "config-dir"); folder != "" {
		if a.Secret != nil && folder != k.Folder { // a file of the unit that the plan does not read names it
			k.DropIns = listDropIns(a.Root, folder)
		}
		run.DropIns = a.readDropIns(k.DropIns, planned, folder)
	}

	return run, nil
}

// readPlanned returns the content of planned files by path, with the placeholders of secrets if none are given. That of
// a file that is created only is not known.
func readPlanned(files []desired.File, secrets func(string) ([]byte, error)) (planned map[string][]byte, err error) {
	planned = map[string][]byte{}
	for _, f := range files {
		switch {
		case f.Kind == desired.Missing:
			planned[f.Path] = nil
		case f.Kind != desired.Regular || f.CreateOnly:
		case secrets == nil:
			planned[f.Path] = append([]byte{}, f.Text.Template()...)
		default:
			if planned[f.Path], err = f.Text.Bytes(secrets); err != nil {
				return nil, err
			}
		}
	}

	return planned, nil
}

// listDropIns returns the drop-ins of a folder, without their content.
func listDropIns(root nodefile.Root, folder string) (all []stages.DropIn) {
	files, _ := probe.ListDropIns(root, folder)
	for _, file := range files {
		all = append(all, stages.DropIn{Path: file})
	}

	return all
}

// encode returns a file of others as JSON, which keeps the notation of numbers: the kubelet refuses 64.0 in JSON.
func encode(config map[string]any) []byte {
	text, _ := json.Marshal(config) // JSON and YAML were parsed into it

	return text
}

// addConfig returns the words of a kubelet with the flag for its planned configuration, which its unit has: the words
// of a unit that is not known lack it.
func addConfig(k judge.FinishedKubelet) []kubelet.Word {
	words := k.Words
	flags := kubelet.FlagsOf(words)
	for _, f := range k.Files {
		flag, value := "config", f.Path
		if k.DropIn == f.Path {
			flag, value = "config-dir", path.Dir(f.Path)
		}
		if _, isSet := flags.Lookup(flag); f.Purpose == "kubelet-config" && !isSet {
			words = append([]kubelet.Word{{Text: "--" + flag + "=" + value}}, words...)
		}
	}

	return words
}

// cgroupFlag is the flag that lets a kubelet start on a machine with control groups of version 1.
const cgroupFlag = "fail-cgroupv1"

func (a *Asker) knowsFlag(ctx context.Context, name string) bool {
	accepts, err := a.Binary().Accepts(ctx, true)

	return err == nil && slices.Contains(accepts.Flags, name)
}

// readDropIns returns the drop-ins of a folder as they will be: planned, or as the plan has read them, since one on the
// disk may be of an earlier generation. A drop-in that the plan has not parsed is read.
func (a *Asker) readDropIns(all []stages.DropIn, planned map[string][]byte, folder string) []kubeletbin.ConfigFile {
	out := []kubeletbin.ConfigFile{}
	for _, d := range all {
		if d.Path == folder { // it cannot be listed, which is a violation of its own
			continue
		}
		text := planned[d.Path]
		if text == nil && d.Config == nil {
			text, _ = a.Root.Bytes(d.Path)
		} else if text == nil {
			text = encode(d.Config)
		}
		out = append(out, kubeletbin.ConfigFile{Path: strings.TrimPrefix(d.Path, folder), Content: text})
	}

	return out
}

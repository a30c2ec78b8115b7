package dryrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe/kubeletbin"
	"github.com/prelet/prelet/internal/machine/unitflags"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/plan/judge"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// RuntimeAsker answers whether containerd accepts its configuration as a plan leaves it: planned files, and those that
// others have written. Finish must be called before the question. Other runtimes are not asked.
type RuntimeAsker struct {
	Binary *kubeletbin.Binary // in place of the node's; nil: that one
	// Root is a folder that does not exist for a machine of which only the plan is known.
	Root     nodefile.Root
	Secret   func(name string) ([]byte, error) // nil: files keep the placeholders of secrets
	Redactor *secret.Redactor
	Folder   string // see kubeletbin.ConfigDump

	finished atomic.Pointer[judge.FinishedRuntime]
}

const (
	runtimeUnit   = "containerd.service"
	runtimeConfig = "/etc/containerd/config.toml"
	usualDropIns  = "/etc/containerd/conf.d/*.toml" // of a machine that is not known

	maxRuntimeFile  = 128 << 10 // bytes: the parser's time grows with the square
	maxRuntimeFiles = 64

	// runtimeTimeout bounds all starts for one question; the first has half of it, see kubeletbin.ConfigDump.
	runtimeTimeout = 20 * time.Second
)

// Finish takes the files of a plan.
func (a *RuntimeAsker) Finish(r judge.FinishedRuntime) { a.finished.Store(&r) }

// Over returns a source that answers for containerd, and lets another one answer all else.
func (a *RuntimeAsker) Over(other tape.Source) tape.Source {
	own := tape.Adapters{tape.ConfigDump.Adapt(a.answer)}

	return tape.SourceFunc(func(ctx context.Context, q tape.Question) tape.Answer {
		if q.Kind == tape.KindConfigDump {
			return own.Ask(ctx, q)
		}

		return other.Ask(ctx, q)
	})
}

// errNotAsked is the error for a node without containerd, or without a configuration of it that the plan changes.
var errNotAsked = errors.New("the container runtime is not asked")

func (a *RuntimeAsker) answer(ctx context.Context, _ tape.ConfigDumpReq) tape.Answer {
	c := runtimeFiles{RuntimeAsker: a}
	err := c.read(*a.finished.Load())
	if err == nil && c.Refusal == "" {
		err = c.ask(ctx)
	}
	switch {
	case errors.Is(err, errNotAsked):
		return tape.Failure(fault.Unread, err.Error(), "")
	case err != nil:
		return tape.Failure(fault.RuntimeConfig, a.Redactor.String(c.Program+": "+err.Error()), "")
	}
	c.Refusal = a.Redactor.String(c.Refusal)

	return tape.ConfigDump.Answer(c.ConfigDumpAns)
}

// runtimeFiles is containerd's configuration as it will be.
type runtimeFiles struct {
	*RuntimeAsker
	tape.ConfigDumpAns

	planned map[string][]byte // by path; nil: removed
	config  string            // the path of the root file
	run     kubeletbin.ConfigDump
	imports []kubeletbin.Import
}

// read finds containerd and its files. It fails if the plan changes none of them.
func (c *runtimeFiles) read(r judge.FinishedRuntime) (err error) {
	c.planned, err = readPlanned(c.listCreated(r.Files), c.Secret)
	command, config := unitflags.ReadRuntime(c.Root, runtimeUnit)
	c.config = cmp.Or(config, runtimeConfig)
	binary, other := c.Binary, error(nil)
	if binary == nil {
		binary, other = kubeletbin.FindRuntime(string(c.Root), command)
	}
	_, missing := c.readFile(c.config)
	switch {
	case missing != nil && missing.Code == fault.Absent, binary == nil && other == nil:
		return errNotAsked
	case binary == nil:
		c.Program = runtimeUnit
	default:
		c.Program = binary.Path()
		c.run = kubeletbin.ConfigDump{Program: binary.File(), Folder: c.Folder}
	}

	err = cmp.Or(err, c.readFiles(), other)
	isRead := func(file string) bool {
		isImport := func(i kubeletbin.Import) bool { return i.Matches(file) }

		return file == c.config || slices.ContainsFunc(c.imports, isImport)
	}
	if r.Changed != nil && !slices.ContainsFunc(r.Changed, isRead) {
		return errNotAsked
	}

	return err
}

// listCreated returns planned files; those that are created only, and do not exist yet, as ordinary ones.
func (c *runtimeFiles) listCreated(files []desired.File) []desired.File {
	files = slices.Clone(files)
	for i, f := range files {
		if !f.CreateOnly {
			continue
		}
		_, err := c.Root.Bytes(f.Path)
		files[i].CreateOnly = err == nil || err.Code != fault.Absent
	}

	return files
}

// passwords matches those of registries.
var passwords = texts.LazyRegexp(`(?i)(?:auth|password|secret|token)[a-z_-]*["']?\s*=\s*["']?([^\s"',{}\[\]]+)`)

// readFiles reads the root file and, in the order of containerd, all that it imports.
func (c *runtimeFiles) readFiles() (late error) {
	for pending := []string{c.config}; len(pending) > 0; pending = pending[1:] {
		f := kubeletbin.ConfigFile{Path: pending[0]}
		if slices.ContainsFunc(c.run.Files, func(other kubeletbin.ConfigFile) bool { return other.Path == f.Path }) {
			continue
		}
		text, err := c.readFile(f.Path)
		link, _ := nodefile.Readlink(c.Root.Path(f.Path))
		switch {
		case err != nil && err.Code == fault.Absent && !strings.HasPrefix(link, "/run/"): // a link to nothing
			c.refuseMissing(f.Path, f.Path)
			return nil
		case err != nil:
			return err
		case len(text) > maxRuntimeFile || len(c.run.Files) == maxRuntimeFiles:
			return fmt.Errorf("%s: only %d files of up to %d KiB are read",
				f.Path, maxRuntimeFiles, maxRuntimeFile>>10)
		}
		for _, found := range passwords().FindAllSubmatch(text, -1) { // containerd's errors may quote them
			c.Redactor.Hide(string(found[1]))
		}

		f.Content = text
		c.run.Files = append(c.run.Files, f)
		for _, i := range kubeletbin.FindImports(f) {
			c.imports = append(c.imports, i)
			if _, err := c.readFile(i.Path); !i.IsNamed() || err == nil || err.Code != fault.Absent {
				pending = append(pending, c.list(i)...)
				continue
			}
			if strings.HasPrefix(i.Path, "/run/") { // another unit may write it before containerd starts
				late = fmt.Errorf("%s imports %s, which does not exist yet", f.Path, i.Path)
				continue
			}
			c.refuseMissing(f.Path, i.Path)
			return nil
		}
	}

	return late
}

// refuseMissing refuses a file that needs another one: `config dump` of containerd 2 ignores what its start refuses.
func (c *runtimeFiles) refuseMissing(file, missing string) {
	c.File, c.Refusal = file, fmt.Sprintf("open %s: no such file or directory", missing)
}

// readFile reads a file as it will be. Without a root file, a containerd that was named gets one for usual drop-ins.
func (c *runtimeFiles) readFile(file string) ([]byte, *fault.Fault) {
	text, isPlanned := c.planned[file]
	switch {
	case text != nil:
		return text, nil
	case isPlanned:
		return nil, &fault.Fault{Code: fault.Absent}
	}
	text, err := c.Root.Bytes(file)
	if err != nil && c.Binary != nil && file == runtimeConfig {
		return []byte(`imports = ["` + usualDropIns + `"]`), nil
	}

	return text, err
}

// list returns the files of an import, which may be hidden ones.
func (c *runtimeFiles) list(i kubeletbin.Import) (files []string) {
	if i.IsNamed() {
		return []string{i.Path}
	}
	folder, name := path.Split(i.Path)
	for _, pattern := range []string{i.Path, folder + "." + name} {
		found, _ := c.Root.Glob("/", pattern, nil)
		files = append(files, found...)
	}
	for file, text := range c.planned {
		files = slices.DeleteFunc(files, func(other string) bool { return other == file })
		if text != nil && i.Matches(file) {
			files = append(files, file)
		}
	}
	slices.Sort(files)

	return files
}

// ask asks whether containerd refuses its files, and with which of them it begins to: its own words often name none.
func (c *runtimeFiles) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, runtimeTimeout)
	defer cancel()
	v, err := c.run.Run(ctx)
	switch {
	case v.Broken != "" && c.Secret == nil && c.Binary == nil: // an image's may run on its own machine only
		return errNotAsked
	case v.Broken != "":
		return errors.New(v.Broken)
	}

	c.Refusal = v.Refusal
	files := c.run.Files
	for n := 0; v.Refusal != "" && c.File == "" && n < len(files); n++ {
		c.run.Files = files[:n+1]
		if first, _ := c.run.Run(ctx); first.Refusal != "" {
			c.Refusal, c.File = first.Refusal, files[n].Path
		}
	}

	return err
}

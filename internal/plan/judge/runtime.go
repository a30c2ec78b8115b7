package judge

import (
	"cmp"
	"context"
	"path"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/stages"
)

// FinishedRuntime are the files of a plan that a container runtime may read. They may contain secrets.
type FinishedRuntime struct {
	Files   []desired.File // as they will be
	Changed []string       // the paths of those that change; nil: it is asked whatever changes
}

// MayRuntimeRead reports whether a container runtime may read a file: of its folder, or an import of it.
func MayRuntimeRead(file string) bool {
	return path.Ext(file) == ".toml" || strings.HasPrefix(file, "/etc/containerd/")
}

// AskRuntime asks the container runtime of a machine whether it accepts the configuration that a plan leaves, if the
// plan changes a part of it: it would not start again with a configuration that it refuses, and a rollback leaves the
// drop-ins of others.
//
// finished gets the files before the question, which has only their digest; nil: a recording answers.
func (r FinishedRuntime) AskRuntime(
	ctx context.Context, source tape.Source, finished func(FinishedRuntime),
) (found origin.Collector) {
	if r.Changed != nil && len(r.Changed) == 0 {
		return found
	}
	if finished != nil {
		finished(r)
	}
	req := tape.ConfigDumpReq{Digest: digestFiles(desired.Node{Files: r.Files})}
	a, ans, err := tape.ConfigDump.Ask(ctx, source, req)
	switch {
	case ans.Code() == fault.Unread:
	case err != nil:
		const summary = "The container runtime was not asked about the plan"
		found.Degrade(fault.RuntimeConfig, summary+": "+ans.Why())
		found.Warn(fault.RuntimeConfig, hcl.Range{}, summary, "%s",
			stages.Sentence(ans.Why(), "A rollback does not help against others' files: try `containerd config dump`"))
	case a.Refusal != "":
		r.report(&found, a)
	}

	return found
}

// report places a refusal at the site's file that it is about.
func (r FinishedRuntime) report(found *origin.Collector, a tape.ConfigDumpAns) {
	where, next := cmp.Or(a.File, "its configuration"), "Nothing was written or restarted"
	var at hcl.Range
	if f, isOurs := (desired.Node{Files: r.Files}).FindFile(a.File); isOurs {
		at = f.FindDeclaration()
	} else if a.File != "" {
		next += ". The site does not write this file: correct it there, or remove it"
	}
	found.Error(fault.RuntimeConfig, at, "The container runtime would not start", "%s",
		stages.Sentence(a.Program+" refuses "+where+": "+a.Refusal, next))
}

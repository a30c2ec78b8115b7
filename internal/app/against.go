package app

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/prelet/prelet/internal/app/revision"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/origin"
)

// loadAgainst loads the site to compare with: a path, or the files of the site at a revision of git. Errors in it are
// those of the command: nothing can be compared with it.
func (e *Env) loadAgainst(ctx context.Context, o PlanOptions) (*siteLoader, error) {
	options := siteOptions(e.Version)
	files := lang.OS()
	options.Paths = []string{o.Against}
	_, err := os.Lstat(o.Against)
	if err != nil || strings.HasPrefix(o.Against, revision.Prefix) {
		old, err := revision.Read(ctx, o.Against, o.Config)
		if err != nil {
			return nil, err
		}
		for _, p := range old.Missing {
			e.Say(fmt.Sprintf("--against %s: %s has no file at this revision, so all of it is new", o.Against, p))
		}
		options.Paths = old.Paths
		files = old
	}

	site, diags := lang.Load(files, options)
	if diags.HasErrors() {
		return nil, &Explained{
			Err:      failure(origin.Code(diags), "--against %s: the site to compare with has errors", o.Against),
			Messages: diags,
		}
	}
	return &siteLoader{fixed: &loadedSite{site: site, diags: diags}}, nil
}

package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/signature"
)

const (
	// signersFile has the keys that may sign a site. It belongs to the image: with it, no unsigned site is evaluated.
	signersFile = "/usr/lib/prelet/site-signers"

	// signatureNamespace is that of ssh-keygen -n: a signature for another purpose is not accepted.
	signatureNamespace = "prelet-site"

	// counterFile contains the counter of the last signed site that gave a complete plan. It is in the state folder.
	counterFile = "site-counter"
)

// verifier returns the function that verifies a site with the keys of the image below root; nil if the image has no
// file with keys.
func verifier(root string) func(text, sig []byte) error {
	keys, loose, unreadable := nodefile.Root(root).InspectText(signersFile)
	if unreadable != nil && unreadable.Code == fault.Absent {
		look, err := nodefile.Root(root).Look(signersFile, nodefile.FollowAbove)
		if errors.Is(err, fs.ErrNotExist) { // not so a link to nothing, which must not turn the check off
			return nil
		}
		if err == nil {
			look.Close()
		}
	}

	return func(text, sig []byte) error {
		switch {
		case unreadable != nil:
			return unreadable
		case loose != nil:
			return errors.New(loose.Error() + ". Who may change it can sign any site. Fix it: " + loose.Fix)
		}

		if err := signature.Verify([]byte(keys), text, sig, signatureNamespace); err != nil {
			return fmt.Errorf("%w (the trusted keys are in %s)", err, signersFile)
		}

		return nil
	}
}

// checkCounter refuses a signed site with a lower counter than the last: an old version that someone has put back.
func checkCounter(stateDir string, counter uint64) *hcl.Diagnostic {
	const summary = "The signed site may be older than the last one"
	if counter == 0 {
		return nil
	}

	name := filepath.Join(stateDir, counterFile)
	text, err := nodefile.ReadFile(name, nodefile.Max)
	if errors.Is(err, fs.ErrNotExist) {
		if _, found := nodefile.Lstat(name); found != nil {
			return nil
		}
		err = errors.New("it is a link that leads nowhere")
	}

	var last uint64
	if err == nil {
		last, err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	}

	switch {
	case err != nil:
		return origin.Error(
			fault.SiteSignature,
			hcl.Range{},
			summary,
			"The counter of the last site cannot be read: %s: %s. If you trust this site, remove that file.",
			name,
			err,
		)
	case counter < last:
		return origin.Error(
			fault.SiteSignature,
			hcl.Range{},
			summary,
			"Its counter is %d, and this node has run a site with %d (%s). To go back, sign the old files with a "+
				"counter of at least %d.",
			counter,
			last,
			name,
			last,
		)
	}

	return nil
}

// KeepCounter stores the counter of a signed site, before its complete plan is applied. A run that cannot store it is
// degraded, because an older site would be accepted later.
func KeepCounter(stateDir string, p *evaluate.Plan) {
	if p.Site == nil || !p.Complete || p.Site.Counter == 0 {
		return
	}

	text := strconv.FormatUint(p.Site.Counter, 10) + "\n"
	if err := commit.WriteIfChanged(filepath.Join(stateDir, counterFile), []byte(text)); err != nil {
		p.Degraded = append(p.Degraded, fault.Reason{
			Code:    fault.SiteSignature,
			Summary: "the counter of the signed site is not kept: " + err.Error(),
		})
	}
}

package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/atomicfile"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/signature"
)

const (
	// SignersFile has the keys that may sign a site. It belongs to the image: with it, no unsigned site is evaluated.
	SignersFile = "/usr/lib/prelet/site-signers"

	// SignatureNamespace is that of ssh-keygen -n: a signature for another purpose is not accepted.
	SignatureNamespace = "prelet-site"

	// counterFile contains the counter of the last site with a list of all layers that gave a complete plan. It is in
	// the state folder.
	counterFile = "site-counter"

	// notBelowFile contains a NotBelow as JSON, of the lists of layers of complete plans. It is in the state folder.
	notBelowFile = "site-not-below"
)

// Verifier returns the function that verifies a site with the keys of the image below root; nil if the image has no
// file with keys.
func Verifier(root string) func(text, sig []byte) error {
	keys, loose, unreadable := nodefile.Root(root).InspectText(SignersFile)
	if unreadable != nil && unreadable.Code == fault.Absent {
		look, err := nodefile.Root(root).Look(SignersFile, nodefile.FollowAbove)
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

		if err := signature.Verify([]byte(keys), text, sig, SignatureNamespace); err != nil {
			return fmt.Errorf("%w (the trusted keys are in %s)", err, SignersFile)
		}

		return nil
	}
}

// NotBelow has, by the name of a signed list, the highest not-below that this node has accepted.
type NotBelow map[string]uint64

// ReadNotBelow reads what this node has accepted: no list of a name may have a lower counter. A file that cannot be
// read is an error, because an older list would be accepted without it.
func ReadNotBelow(stateDir string) (NotBelow, error) {
	text, err := readCounters(stateDir, notBelowFile)
	if text == nil || err != nil {
		return NotBelow{}, err
	}

	var n NotBelow
	if err = json.Unmarshal(text, &n); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(stateDir, notBelowFile), err)
	}
	if n == nil {
		return nil, fmt.Errorf("%s: it is null", filepath.Join(stateDir, notBelowFile))
	}

	return n, nil
}

// readCounters reads a file of the state folder; nil if there is none.
func readCounters(stateDir, base string) ([]byte, error) {
	name := filepath.Join(stateDir, base)
	text, err := nodefile.ReadFile(name, nodefile.Max)
	if errors.Is(err, fs.ErrNotExist) {
		if _, found := nodefile.Lstat(name); found != nil {
			return nil, nil
		}
		err = errors.New("it is a link that leads nowhere")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}

	return append([]byte{}, text...), nil
}

// readCounter reads the counter of the last site with a list of all layers; 0 if this node has run none.
func readCounter(stateDir string) (uint64, error) {
	text, err := readCounters(stateDir, counterFile)
	if text == nil || err != nil {
		return 0, err
	}

	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Join(stateDir, counterFile), err)
	}

	return n, nil
}

// checkSigned refuses, on an image with keys, what each valid signature allows: no site at all, with which a kubelet
// would start unconfigured, and an older site.
func (l *LoadedSite) checkSigned(stateDir string) {
	switch {
	case origin.Code(l.Diags) == fault.NoSite:
		l.Diags = hcl.Diagnostics{origin.Error(
			fault.SiteSignature, hcl.Range{}, "There is no signed site",
			"This image evaluates only sites that one of its keys has signed (%s), and none of the site's folders "+
				"contains %s. Put it and %s next to the site's files.", SignersFile, lang.ListFile, lang.SignatureFile,
		)}
	case !l.Diags.HasErrors():
		if refused := checkCounters(stateDir, l.Site.SignedLists()); refused != nil {
			l.Diags = append(l.Diags, refused)
		}
	}
}

// checkCounters refuses signed lists that are too old, which someone has put back, and a site whose list someone has
// removed.
func checkCounters(stateDir string, lists []*lang.SignedList) *hcl.Diagnostic {
	switch {
	case len(lists) == 0:
		return checkUnlisted(stateDir)
	case lists[0].Name == "": // then it is the only one
		return checkWhole(stateDir, lists[0])
	}

	accepted, err := ReadNotBelow(stateDir)
	if err != nil {
		return tooOld("What this node has accepted cannot be read: %s. If you trust this site, remove that file.", err)
	}
	for _, l := range lists {
		if lowest := accepted[l.Name]; l.Counter < lowest {
			return tooOld("The counter of %s is %d, and this node has accepted a list of this name with not-below %d "+
				"(%s). To go back, sign the old files with a counter of at least %[3]d.",
				l.Name, l.Counter, lowest, filepath.Join(stateDir, notBelowFile))
		}
	}

	return nil
}

// checkUnlisted refuses a site of the image's layer alone if an earlier site of this node had a list of all layers: its
// other layers may have been removed with the list.
func checkUnlisted(stateDir string) *hcl.Diagnostic {
	last, err := readCounter(stateDir)
	if last == 0 && err == nil {
		return nil
	}

	return tooOld("It has no %s, and an earlier site of this node had one. Restore that list. If the image's layer "+
		"alone is the site now, remove that file (%s).", lang.ListFile, filepath.Join(stateDir, counterFile))
}

// checkWhole refuses a list of all layers with a lower counter than the last.
func checkWhole(stateDir string, l *lang.SignedList) *hcl.Diagnostic {
	last, err := readCounter(stateDir)
	switch {
	case err != nil:
		return tooOld("The counter of the last site cannot be read: %s. If you trust this site, remove that file.", err)
	case l.Counter < last:
		return tooOld("Its counter is %d, and this node has run a site with %d (%s). To go back, sign the old files "+
			"with a counter of at least %d.", l.Counter, last, filepath.Join(stateDir, counterFile), last)
	}

	return nil
}

func tooOld(detail string, args ...any) *hcl.Diagnostic {
	const summary = "The signed site may be older than the last one"

	return origin.Error(fault.SiteSignature, hcl.Range{}, summary, detail, args...)
}

// KeepCounter stores the lower limits of later sites, before the complete plan of a signed site is applied: the
// counter of a list of all layers, and the highest not-below of each list of a layer. A run that cannot store it is
// degraded, because an older site would be accepted later.
func KeepCounter(stateDir string, p *evaluate.Plan) {
	if p.Site == nil || !p.Complete {
		return
	}

	for _, l := range p.Site.SignedLists() {
		keep := keepNotBelow
		if l.Name == "" {
			keep = keepCounter
		}
		if err := keep(stateDir, l); err != nil {
			p.Degraded = append(p.Degraded, fault.Reason{
				Code:    fault.SiteSignature,
				Summary: "the counter of the signed site is not kept: " + err.Error(),
			})
		}
	}
}

func keepCounter(stateDir string, l *lang.SignedList) error {
	last, err := readCounter(stateDir)
	if err != nil || l.Counter <= last {
		return err
	}

	return keepDurable(stateDir, counterFile, strconv.FormatUint(l.Counter, 10))
}

// keepNotBelow stores the not-below of a list if it is higher than what this node has accepted.
func keepNotBelow(stateDir string, l *lang.SignedList) error {
	accepted, err := ReadNotBelow(stateDir)
	if err != nil || l.NotBelow <= accepted[l.Name] {
		return err
	}

	accepted[l.Name] = l.NotBelow
	text, err := json.Marshal(accepted)
	if err != nil {
		return err
	}

	return keepDurable(stateDir, notBelowFile, string(text))
}

// keepDurable replaces a file of the state folder. After a power cut no earlier or empty one may be there: the node
// would accept an older site, or none.
func keepDurable(stateDir, base, text string) error {
	return atomicfile.Durable(filepath.Join(stateDir, base), 0o600, []byte(text+"\n"))
}

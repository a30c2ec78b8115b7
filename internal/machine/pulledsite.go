package machine

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/schema"
)

// SitesFolder is in the state folder: the pulled sites, each in a folder with its digest, and their record.
const SitesFolder = "sites"

// DeliveryFile is the record in SitesFolder, a report.Delivery.
const DeliveryFile = "state.json"

// deliveryFormat is the version of the record. A later one is not read.
const deliveryFormat = 1

// Sources is where the site of a node is pulled from.
type Sources struct {
	From    []string // references, in the order in which they are tried; empty for a node that pulls none
	IsGiven bool     // by the kernel command line or a credential, not by the delivery block
	IsKept  bool     // that gave it before, and is missing now
}

// SiteSources returns where the site of a node is pulled from: the kernel command line, else a credential, else what
// one of these gave to a look, else the delivery block. The credential is that of prelet-site.service: a unit
// that does not get it knows its value by the record.
func SiteSources(c systemd.Credentials, w Where, d schema.Delivery) (Sources, error) {
	const name = secret.SiteCredential // the parameter of the kernel command line has the name of the credential
	given := strings.Fields(nodefile.Root(w.Root).ReadCommandLine()[name])
	if len(given) == 0 {
		text, err := c.Read(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Sources{}, err
		}
		given = strings.Fields(string(text))
	}
	if len(given) > 0 {
		return Sources{From: given, IsGiven: true}, nil
	}

	if r, err := ReadDelivery(w.StateDir()); err == nil && len(r.Given) > 0 {
		return Sources{From: r.Given, IsGiven: true, IsKept: true}, nil
	}

	return Sources{From: d.From}, nil
}

// ReadPasswords returns the passwords of registries, a docker config.json; nil if prelet-site.service gets none.
func (e *Env) ReadPasswords(w Where) ([]byte, error) {
	text, err := e.SiteCredentials(w).Read(secret.RegistryCredential)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, systemd.CredentialFault(secret.RegistryCredential, err).Raise(fault.CredentialMissing, "")
	}

	return text, nil
}

// ReadDelivery reads the record of the state folder. The error wraps fs.ErrNotExist if there is none.
func ReadDelivery(stateDir string) (*report.Delivery, error) {
	name := filepath.Join(stateDir, SitesFolder, DeliveryFile)
	text, err := nodefile.ReadFile(name, nodefile.Max)
	if err != nil {
		return nil, err
	}

	var d report.Delivery
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", name, err)
	}
	if d.FormatVersion != deliveryFormat {
		return nil, fmt.Errorf("%s has the format %d; this prelet reads %d", name, d.FormatVersion, deliveryFormat)
	}
	if _, isDigest := digestFolder(d.Digest); d.Digest != "" && !isDigest {
		return nil, fmt.Errorf("%s is damaged: invalid digest %q", name, d.Digest)
	}

	return &d, nil
}

// NewDelivery returns the record of a node that has pulled nothing.
func NewDelivery() *report.Delivery { return &report.Delivery{FormatVersion: deliveryFormat} }

func digestFolder(digest string) (name string, ok bool) {
	sum, isSHA := strings.CutPrefix(digest, "sha256:")
	raw, err := hex.DecodeString(sum)

	return "sha256-" + sum, isSHA && err == nil && len(raw) == sha256.Size && sum == strings.ToLower(sum)
}

// PulledFolder returns the folder of a digest, which ReadDelivery has checked.
func PulledFolder(stateDir, digest string) string {
	name, _ := digestFolder(digest)

	return filepath.Join(stateDir, SitesFolder, name)
}

// SumFiles returns the SHA-256 of the files of a pulled site, by name.
func SumFiles(files map[string][]byte) string {
	hash := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(hash, "%q %d\n%s", name, len(files[name]), files[name])
	}

	return hex.EncodeToString(hash.Sum(nil))
}

// ReadPulled returns the files of a pulled site, by name.
func ReadPulled(folder string) (map[string][]byte, error) {
	entries, err := nodefile.ReadDir(folder)
	files := map[string][]byte{}
	for _, e := range entries {
		text, failed := nodefile.ReadFile(filepath.Join(folder, e.Name()), nodefile.Max)
		err = errors.Join(err, failed)
		files[e.Name()] = text
	}

	return files, err
}

// CheckPulled returns why the stored site of a record cannot be used by a node.
func CheckPulled(stateDir string, r *report.Delivery, d schema.Delivery) error {
	switch {
	case r.Digest == "" && r.Failed != "":
		return errors.New("none has been pulled: " + r.Failed)
	case r.Digest == "":
		return errors.New("none has been pulled")
	case r.Ring != d.Ring:
		return fmt.Errorf("the site %s is of the ring %q, and this node is of the ring %q", r.Digest, r.Ring, d.Ring)
	case r.Name != "" && d.Name != "" && r.Name != d.Name:
		return fmt.Errorf("the site %s is signed as %q, and this node wants %q", r.Digest, r.Name, d.Name)
	}

	folder := PulledFolder(stateDir, r.Digest)
	files, err := ReadPulled(folder)
	if err != nil {
		return fmt.Errorf("the site %s: %w", r.Digest, err)
	}
	if SumFiles(files) != r.Content {
		return fmt.Errorf("the files in %s were changed since they were pulled", folder)
	}

	return nil
}

// loadPulled adds the pulled layer to a site that was loaded without it, if the node pulls its site.
func (e *Env) loadPulled(w Where, o lang.LoadOptions, l *LoadedSite) {
	if l.Site.Delivery == nil && origin.Code(l.Diags) == fault.SiteSignature {
		return
	}
	block := schema.ReadDelivery(l.Site.Delivery)
	l.block = block
	sources, unread := SiteSources(e.Credentials(w), w, block)
	if len(sources.From) == 0 && (unread == nil || !HasPulled(w, block)) {
		l.noteUnread(unread)
		return
	}

	l.Delivery = NewDelivery()
	record, err := ReadDelivery(w.StateDir())
	switch {
	case err == nil:
		l.Delivery = record
		err = CheckPulled(w.StateDir(), record, block)
	case errors.Is(err, fs.ErrNotExist):
		err = errors.New("none has been pulled")
	}
	if err != nil && unread != nil {
		err = fmt.Errorf("%w; %w", unread, err)
	}

	if err == nil {
		o.Pulled = PulledFolder(w.StateDir(), l.Delivery.Digest)
		site, diags := lang.Load(lang.OS(), o)
		at := slices.IndexFunc(diags, isError)
		if at >= 0 && block.Alone && !slices.ContainsFunc(l.Diags, isError) {
			err = errors.New(origin.OneLine(diags[at]))
		} else {
			l.Delivery.Used = l.Delivery.Digest
			l.Site, l.Diags = site, diags
		}
	}

	switch {
	case err == nil:
	case block.Alone:
		l.degraded = append(l.degraded, fault.Reason{
			Code:    fault.SiteDelivery,
			Summary: "the site of the image is used alone, because no pulled site can be used: " + err.Error(),
		})
	default:
		if origin.Code(l.Diags) == fault.NoSite { // a node without a site at all would start its kubelet
			l.Diags = nil
		}
		l.Diags = append(l.Diags, origin.Error(
			fault.SiteDelivery, hcl.Range{}, "There is no pulled site",
			"%s. Look for one: prelet site update. Where it comes from: %s.", origin.Capitalize(err.Error()),
			cmp.Or(strings.Join(sources.From, ", "), "not known"),
		))
	}
	switch {
	case err != nil:
	case unread != nil:
		l.noteUnread(fmt.Errorf("%w; the site is that of %s", unread, l.Delivery.LookedAt.UTC().Format(time.RFC3339)))
	default:
		l.degraded = append(l.degraded, e.describeLook(w, l.Delivery)...)
	}
	if sources.IsKept && l.Delivery.IsKept {
		l.degraded = append(l.degraded, fault.Reason{
			Code: fault.SiteDelivery,
			Summary: fmt.Sprintf("%s, which named %s, is missing and its value is kept; to use the delivery block: "+
				"rm %s, prelet site update", secret.SiteCredential, strings.Join(sources.From, " "),
				filepath.Join(w.StateDir(), SitesFolder, DeliveryFile)),
		})
	}
}

// describeLook returns why the pulled site of a node may not be the newest one: the last look has failed, or was not in
// this boot.
func (e *Env) describeLook(w Where, d *report.Delivery) []fault.Reason {
	of := "the site is that of " + d.LookedAt.UTC().Format(time.RFC3339)
	boot := systemd.OwnBootID(e.Getenv)
	isHere := w.Root == "" && w.Hardware == "" || e.On != nil
	switch {
	case isHere && boot != "" && d.BootID != boot:
		return []fault.Reason{{
			Code: fault.SiteDelivery,
			Summary: fmt.Sprintf("nothing has looked for a site in this boot; %s; systemctl status %s: why",
				of, SiteUnit),
		}}
	case d.Failed != "":
		return []fault.Reason{{
			Code:    fault.SiteDelivery,
			Summary: fmt.Sprintf("the last look for a site failed: %s; %s", d.Failed, of),
		}}
	}

	return nil
}

// LacksPulled reports whether the site is without the layer that its node pulls, because none has been pulled here.
func (l *LoadedSite) LacksPulled() bool { return l.Delivery != nil && l.Delivery.Digest == "" }

// HasPulled reports whether a node pulls its site, although a source cannot be read: the block names another one, or
// there is a record, which may be unreadable. Root never lacks the permission.
func HasPulled(w Where, d schema.Delivery) bool {
	_, err := ReadDelivery(w.StateDir())

	return len(d.From) > 0 || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission)
}

// IsForUnit reports whether a credential can be read only in a unit, because systemd decrypts it.
func IsForUnit(err error) bool { return errors.Is(err, systemd.ErrEncrypted) }

// UnreadSources is the fault of a credential prelet.site that cannot be read.
func UnreadSources(err error) *fault.Fault {
	return &fault.Fault{
		Code:    fault.CredentialMissing,
		Summary: summaryUnread,
		Err:     systemd.CredentialFault(secret.SiteCredential, err),
	}
}

const summaryUnread = "It is not known where the site is pulled from"

// noteUnread adds that it is not known where the site is pulled from. A node without any site must not start its
// kubelet then. A user who may not read the credential, which a unit can, gets no finding.
func (l *LoadedSite) noteUnread(unread error) {
	if unread == nil || errors.Is(unread, fs.ErrPermission) || IsForUnit(unread) {
		return
	}

	if origin.Code(l.Diags) == fault.NoSite {
		l.Diags = hcl.Diagnostics{origin.Error(fault.SiteDelivery, hcl.Range{}, summaryUnread, "%s.",
			origin.Capitalize(unread.Error()))}
	}
	l.degraded = append(l.degraded, fault.Reason{
		Code:    fault.SiteDelivery,
		Summary: "i" + summaryUnread[1:] + ": " + unread.Error(),
	})
}

func isError(d *hcl.Diagnostic) bool { return d.Severity == hcl.DiagError }

// noteDelivery adds how a node with delivery is degraded to its plan.
func (n *Node) noteDelivery(p *evaluate.Plan) {
	if p.Complete {
		p.Degraded = append(p.Degraded, n.degraded...)
	}
}

package delivery

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/platform/nodefile/hangfs"
	"github.com/prelet/prelet/internal/platform/registry"
	"github.com/prelet/prelet/internal/testing/osfile"
)

// shelf is an OCI image layout, from which a node pulls with the client of a node.
type shelf struct {
	*node
	folder string
}

// newShelf returns a node that has pulled site 1 from a layout, and reads all that a node may read for it.
func newShelf(t *testing.T, block string) (*shelf, *registry.Artifact) {
	t.Helper()
	s := &shelf{newNode(t, block), filepath.Join(t.TempDir(), "shelf")}
	s.Registry = nil
	s.giveCredential("prelet.registry", "{}")
	osfile.Write(t, filepath.Join(s.credentials, "prelet.site"), s.ref(), 0o400)
	s.write(machine.StateFolder+"/site-not-below", "{\"gpu\":1}\n")
	first := s.push(site(1))
	s.check(first, "")

	return s, first
}

func (s *shelf) ref() string { return "oci-layout:" + s.folder + ":stable" }

// push gives a site the tag of the node, and the digest that it has there.
func (s *shelf) push(a *registry.Artifact) *registry.Artifact {
	s.t.Helper()
	ref := must(registry.Parse(s.ref()))

	return &registry.Artifact{Digest: must((&registry.Client{}).Push(s.t.Context(), ref, a.Files)), Files: a.Files}
}

// blob returns the file of a digest in the layout.
func (s *shelf) blob(digest string) string {
	return filepath.Join(s.folder, "blobs/sha256", strings.TrimPrefix(digest, "sha256:"))
}

// layer returns the file of the layer of the new site: the only file of the layout with its text.
func (s *shelf) layer() string {
	s.t.Helper()
	for _, name := range must(filepath.Glob(s.blob("*"))) {
		if strings.Contains(string(osfile.Read(s.t, name)), "version = 2") {
			return name
		}
	}
	s.t.Fatal("got no layer in the layout, want one with site 2")

	return ""
}

// TestUnreadable makes each file that an update reads unreadable, as a bad sector does (EIO), while a new site waits:
// the node keeps the site that it has, and says why, and the next update without the fault takes the new one. What is
// the node's own, and can be made again, is made again at once.
func TestUnreadable(t *testing.T) {
	const eio = "input/output error"
	state := func(name string) func(*shelf, string) string {
		return func(s *shelf, _ string) string { return filepath.Join(s.state(), name) }
	}
	image := func(name string) func(*shelf, string) string {
		return func(s *shelf, _ string) string { return filepath.Join(s.root, "usr/lib/prelet", name) }
	}
	status := func(s *shelf, _ string) string { return s.root + machine.RunDir + "/status.json" }
	credential := func(name string) func(*shelf, string) string {
		return func(s *shelf, _ string) string { return filepath.Join(s.credentials, name) }
	}
	for name, c := range map[string]struct {
		file    func(s *shelf, next string) string
		heals   bool
		refused bool // the run refuses the site, too
	}{
		"mark of the layout":       {file: func(s *shelf, _ string) string { return s.folder + "/oci-layout" }},
		"index of the layout":      {file: func(s *shelf, _ string) string { return s.folder + "/index.json" }},
		"manifest":                 {file: (*shelf).blob},
		"layer":                    {file: func(s *shelf, _ string) string { return s.layer() }},
		"place, a credential":      {file: credential("prelet.site")},
		"passwords, a credential":  {file: credential("prelet.registry")},
		"keys of the image":        {file: image("site-signers"), refused: true},
		"delivery block":           {file: image("site/00-image.hcl"), refused: true},
		"highest not-below":        {file: state("site-not-below"), refused: true},
		"record":                   {file: state("sites/state.json"), heals: true},
		"status of the last run":   {file: status, heals: true},
		"a file of the first site": {heals: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, first := newShelf(t, "")
			s.write(machine.RunDir+"/status.json", `{"format_version":1,"state":"ok"}`)
			next := s.push(site(2))
			folder := machine.PulledFolder(s.state(), first.Digest)
			var end func()
			if c.file == nil { // an update removes its folder, on which nothing may be mounted
				end = hangfs.SpoilFileIn(t, filepath.Dir(folder), filepath.Join(folder, "pulled.hcl"))
			} else {
				end = hangfs.SpoilFile(t, c.file(s, next.Digest))
			}
			if c.heals {
				s.check(next, "")
				return
			}

			_, err := s.update()
			d, readErr := machine.ReadDelivery(s.state())
			if err == nil || !strings.Contains(err.Error(), eio) || readErr != nil || d.Digest != first.Digest ||
				!strings.Contains(d.Failed, eio) {
				t.Errorf("update: got %v and the record %+v, %v; want EIO, and the first site", err, d, readErr)
			}
			l := s.env().Load(machine.Where{Root: s.root})
			if c.refused != l.Diags.HasErrors() || !c.refused && l.Delivery.Used != first.Digest {
				t.Errorf("site: got %v, want an error %t", l.Diags, c.refused)
			}

			end()
			s.check(next, "")
		})
	}
}

// TestUnreadableSite makes the stored site of a node unreadable while its place is not reached: a run has no pulled
// site, or that of the image where that is allowed, and the next look that succeeds stores the site again.
func TestUnreadableSite(t *testing.T) {
	for _, block := range []string{"", "alone = true"} {
		s, first := newShelf(t, block)
		for _, name := range []string{"pulled.hcl", "site.sha256"} {
			file := filepath.Join(machine.PulledFolder(s.state(), first.Digest), name)
			end := hangfs.SpoilFileIn(t, filepath.Dir(filepath.Dir(file)), file)
			endPlace := hangfs.SpoilFile(t, s.folder+"/index.json")

			_, err := s.update()
			l := s.env().Load(machine.Where{Root: s.root})
			if err == nil || strings.Contains(err.Error(), "keeps the site") || l.Diags.HasErrors() == (block != "") ||
				l.Delivery.Used != "" {
				t.Errorf("%s, block %q: got %v, %v and %+v; want no site in use", name, block, err, l.Diags, l.Delivery)
			}

			endPlace()
			s.check(first, "")
			end()
			s.check(first, "")
		}
	}
}

// TestUnreadableLock refuses an update that cannot take the lock of the sites: the site and its record stay.
func TestUnreadableLock(t *testing.T) {
	s, first := newShelf(t, "")
	next := s.push(site(2))
	end := hangfs.SpoilFile(t, filepath.Join(s.state(), machine.SitesFolder, lockFile))
	_, err := s.update()
	d, readErr := machine.ReadDelivery(s.state())
	if err == nil || !strings.Contains(err.Error(), unix.EIO.Error()) || readErr != nil || d.Digest != first.Digest {
		t.Errorf("update: got %v and the record %+v, %v; want EIO, and the first site", err, d, readErr)
	}
	end()
	s.check(next, "")
}

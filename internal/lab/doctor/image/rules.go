package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/machine/probe"
	"github.com/prelet/prelet/internal/machine/probe/joined"
	"github.com/prelet/prelet/internal/machine/probe/kubeletbin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

const machineID = "/etc/machine-id"

// table is all places, besides the identity of the kubelet.
//
//go:embed rules.txt
var table string

// rule is a place in which a machine has something of its own.
type rule struct {
	pattern string // a path; * matches within a name, and ** at the end all files below
	check   string // of package doctor: identity, secrets or state
	action  Action
	why     string // %s is the secret in it
	do      string
	// describe returns why the file must not be in an image, "" if it may be. Nil: it must not.
	describe func(rule, *nodefile.Look) (string, error)
}

// apply returns why a file must not be in an image; "" if it may be.
func (r rule) apply(look *nodefile.Look) (string, error) {
	if r.describe != nil {
		return r.describe(r, look)
	}

	return r.why, nil
}

const whyIdentity = "with it, each machine of this image is the same node, until prelet removes it at boot"

// rules returns the rows of the table, one for each path.
func (o Subject) rules() (out []rule) {
	tests := map[string]func(rule, *nodefile.Look) (string, error){
		"credential": o.describeCredential,
		"hostname":   o.describeHostname,
		"initiator":  describeInitiator,
		"kubeconfig": describeKubeconfig,
		"machine-id": describeMachineID,
		"recording":  describeRecording,
		"secret":     describeSecret,
		"state":      describeState,
		"unit":       o.describeUnit,
	}
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "#") || line == "\n" {
			continue
		}
		cells := strings.Split(strings.TrimSpace(line), "|")
		for i, cell := range cells {
			cells[i] = strings.TrimSpace(cell)
		}
		cells = append(cells, "", "") // a row may end before why and do
		for pattern := range strings.FieldsSeq(cells[3]) {
			for _, place := range o.expand(pattern) {
				out = append(out, rule{place, cells[0], Action(cells[1]), cells[4], cells[5], tests[cells[2]]})
			}
		}
	}

	return out
}

// expand returns a path of the table for each folder of the site, if it is in one.
func (o Subject) expand(pattern string) (out []string) {
	rest, isOfSite := strings.CutPrefix(pattern, "SITE")
	if !isOfSite {
		return []string{pattern}
	}
	for _, dir := range o.SiteFolders {
		out = append(out, dir+rest)
	}

	return out
}

func describeMachineID(_ rule, look *nodefile.Look) (string, error) {
	if look.Mode()&fs.ModeSymlink != 0 {
		return "", nil
	}
	text, err := readText(look)
	if err == nil && (text == "" || text == "uninitialized") {
		return "", nil
	}

	return "all machines would have one id; by it prelet recognises a copied disk", err
}

// describeInitiator returns why a file of open-iscsi must not be in an image: it has a name instead of the request to
// make one.
func describeInitiator(r rule, look *nodefile.Look) (string, error) {
	text, err := readText(look)
	if !initiatorName().MatchString(text) {
		return "", err
	}

	return r.why, err
}

var initiatorName = texts.LazyRegexp(`(?m)^\s*InitiatorName\s*=`)

// describeHostname returns why a host name should not be in an image. A name that identifies no machine may be.
func (o Subject) describeHostname(_ rule, look *nodefile.Look) (string, error) {
	if !look.Mode().IsRegular() {
		return "", nil
	}
	name := joined.Reader{Root: o.Root, Recorded: true}.HostName()
	if name == "" {
		return "", nil
	}

	return "with it, each machine of this image is node " + strconv.Quote(name), nil
}

// describeSecret returns why a file must not be in an image: it contains a secret.
func describeSecret(r rule, look *nodefile.Look) (string, error) {
	text, err := readText(look)

	return r.describeText(text), err
}

// maxKubeconfig is the size in bytes of the largest kubeconfig.
const maxKubeconfig = 1 << 20

// describeKubeconfig returns why a file must not be in an image: it is a kubeconfig with a credential, by its content,
// since it may have any name. A program is none.
func describeKubeconfig(r rule, look *nodefile.Look) (string, error) {
	if look.Stat.Size > maxKubeconfig {
		return "", nil
	}
	text, err := readText(look)
	if strings.ContainsRune(text, 0) || !probe.HoldsKubeconfig(text) {
		return "", err
	}

	return strings.Replace(r.why, "%s", "a kubeconfig with credentials", 1), err
}

// describeText describes a text with a secret; "" if it has none.
func (r rule) describeText(text string) string {
	what := probe.DescribeSecret(text)
	if what == "" {
		return ""
	}

	return strings.Replace(r.why, "%s", what, 1)
}

// isSecret reports whether a credential of prelet is a secret.
func (o Subject) isSecret(credential string) bool {
	variable, isVariable := strings.CutPrefix(credential, "prelet.var.")

	return credential == "bootstrap-token" || isVariable && !o.IsPublic(variable)
}

// describeCredential returns why a credential of prelet must not be in a store of the image.
func (o Subject) describeCredential(r rule, look *nodefile.Look) (string, error) {
	if !o.isSecret(path.Base(look.Path())) {
		return "", nil
	}

	return r.why, nil
}

var setCredential = texts.LazyRegexp(`(?m)^\s*SetCredential\s*=\s*([^:\s]+):`)

// describeUnit returns why a drop-in must not be in an image: it sets a secret of prelet, or contains one.
func (o Subject) describeUnit(r rule, look *nodefile.Look) (string, error) {
	text, err := readText(look)
	for _, match := range setCredential().FindAllStringSubmatch(text, -1) {
		if o.isSecret(match[1]) {
			return "it sets the credential " + match[1] + ", which everybody who gets the image can use", nil
		}
	}

	return r.describeText(text), err
}

// describeState returns why a file of prelet's folder must not be in an image. The kubelet's output is of its binary,
// and the next boot checks that it is of the same file.
func describeState(r rule, look *nodefile.Look) (string, error) {
	if path.Base(look.Path()) == kubeletbin.CacheFile {
		return "", nil
	}

	return r.why, nil
}

// describeRecording returns why a recording or a bundle must not be in an image. A file with the name of a recording
// that cannot be decoded is an error: it may be damaged, or of a newer prelet.
func describeRecording(_ rule, look *nodefile.Look) (string, error) {
	name := look.Path()
	switch {
	case !look.Mode().IsRegular():
		return "", nil
	case strings.HasSuffix(name, ".tar.gz"):
		return describeBundle(look)
	case !strings.HasSuffix(name, ".prelet") && !strings.HasSuffix(name, ".prelet.gz"):
		return "", nil
	}

	text, err := look.Read(maxText)
	if err != nil {
		return "", err
	}
	if _, err := tape.Decode(bytes.NewReader(text)); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}

	return "it is the recording of a machine, with its addresses and the cluster's objects", nil
}

// bundleFolder contains all files of a bundle.
const bundleFolder = "prelet-bundle/"

// describeBundle returns why an archive must not be in an image if it is a bundle. It reads only the beginning, because
// another archive may be large.
func describeBundle(look *nodefile.Look) (string, error) {
	f, err := look.Open()
	if err != nil {
		return "", err
	}
	defer f.Close()

	text, err := gzip.NewReader(f)
	if err != nil {
		return "", nil // the file is not an archive
	}
	first, err := tar.NewReader(text).Next()
	if err != nil || !strings.HasPrefix(first.Name, bundleFolder) {
		return "", nil
	}

	return "it is the bundle of a machine, with its addresses, its journal and the cluster's objects", nil
}

func splitPattern(pattern string) []string {
	return strings.Split(strings.TrimPrefix(pattern, "/"), "/")
}

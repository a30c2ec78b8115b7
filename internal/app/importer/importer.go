// Package importer turns the input of init-k8s-node.py, the script that sites used before prelet, into a site.
// Import takes the init-config (JSON of one node): its values become literals, and what the script detected on the node
// (address, GPU, network card, port) becomes expressions over facts and files. It must not read or write files.
package importer

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages/builtin"
)

// FileName is the name of the site's only file.
const FileName = "site.hcl"

// CAHashHelp explains where a pin comes from, and why it is required.
const CAHashHelp = "On a control plane, `kubeadm token create --print-join-command` prints it, and so does\n" +
	"    openssl x509 -in /etc/kubernetes/pki/ca.crt -noout -pubkey | openssl pkey -pubin -outform der | sha256sum\n" +
	"with sha256: before its 64 digits. The script fetched the CA without verifying TLS; that is not offered,\n" +
	"because any server that answered would get the bootstrap token and could configure the node."

var (
	hashPattern = regexp.MustCompile(`^sha256:[0-9a-fA-F]{64}$`)
)

// Options are the values that an init-config lacks.
type Options struct {
	Hashes     []string // pins of the cluster's CA, "sha256:" and 64 hex digits; at least one
	Credential string   // name of the systemd credential with the bootstrap token
	Version    string   // of prelet, for the check of the result
}

// Result is a site with remarks.
type Result struct {
	Text        []byte          // of FileName; nil if Diagnostics has an error
	Diagnostics hcl.Diagnostics // places are in the init-config
	Differences []string        // from the script, for this init-config
	Open        []string        // decisions for a person before the site is used
}

// CheckHash checks a pin.
func CheckHash(h string) error {
	if !hashPattern.MatchString(h) {
		return fmt.Errorf("invalid pin %q: write sha256: and 64 hex digits.\n%s", shorten(h, 8), CAHashHelp)
	}

	return nil
}

// shorten keeps the first characters of a long text: it may be a token in the wrong place.
func shorten(s string, most int) string {
	if r := []rune(s); len(r) > most+12 {
		return string(r[:most]) + "…"
	}

	return s
}

// Import makes a site of an init-config, and checks it as `prelet validate` does.
func Import(name string, src []byte, o Options) Result {
	doc, diags := lang.ReadJSON(name, src)
	if diags.HasErrors() {
		return Result{Diagnostics: diags}
	}

	r := &reader{src: src}
	c := r.readConfig(doc)
	p := page{
		config:     c,
		Source:     path.Base(filepath.ToSlash(name)),
		Hashes:     o.Hashes,
		Credential: o.Credential,
	}
	r.resolve(&p)
	if r.diags.HasErrors() {
		return Result{Diagnostics: r.diags}
	}

	text, err := p.render()
	if err == nil {
		err = Check(text, o.Version)
	}
	if err != nil {
		r.add(origin.Error(fault.Internal, hcl.Range{}, "The imported site is not valid",
			"This is a bug of prelet, nothing was written: %s", err))

		return Result{Diagnostics: r.diags}
	}

	return Result{
		Text:        text,
		Diagnostics: r.diags,
		Differences: p.differences(),
		Open:        p.open(),
	}
}

// Check returns what `prelet validate --strict` would refuse of a site of one file.
func Check(text []byte, version string) error {
	files := []world.SiteFile{{Name: FileName, Text: string(text)}}
	s, diags := lang.Parse(files, lang.Options{Stages: builtin.Stages(), Version: version})
	if !diags.HasErrors() {
		diags = append(diags, boot.Check(s, boot.SampleMachines(), boot.CheckOptions{})...)
	}

	var refused []string
	for _, d := range diags {
		if !origin.IsNote(d) {
			refused = append(refused, d.Error())
		}
	}
	if len(refused) > 0 {
		return errors.New(strings.Join(refused, "; "))
	}

	return nil
}

// Package importer turns the input of init-k8s-node.py, the script that sites used before prelet, into a site that a
// person would have written. It is pure: bytes in, bytes and diagnostics out; who calls it reads and writes files.
//
// The script read /etc/kubernetes/init-config (JSON) on one node. What stands in it becomes literals of the site; what
// the script found out on the node (address, GPU, network card, port) becomes expressions over facts and files. What
// it did badly is not carried over, and told: see Mended.
package importer

import (
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

// FileName is the site's only file.
const FileName = "site.hcl"

// Options are what init-config does not say.
type Options struct {
	Hashes     []string // pins of the cluster's CA, "sha256:" and 64 hex digits; at least one
	Credential string   // name of the systemd credential that holds the bootstrap token
	Version    string   // of prelet, for the check of the result
}

// Result is a site and what is to be said about it.
type Result struct {
	Text        []byte          // of FileName; nil if Diagnostics has an error
	Diagnostics hcl.Diagnostics // places are in init-config
	Mended      []string        // what the script did badly and the site does not, for this init-config
	Open        []string        // what a person should look at before the site is used
}

// HowToHash says where a pin comes from, and why there is no way without one.
const HowToHash = "On a control plane, `kubeadm token create --print-join-command` prints it, and so does\n" +
	"    openssl x509 -in /etc/kubernetes/pki/ca.crt -noout -pubkey | openssl pkey -pubin -outform der | sha256sum\n" +
	"with sha256: before its 64 digits. The script fetched the CA without verifying TLS; that is not offered, because\n" +
	"whoever answered would be given the bootstrap token and would configure the node."

// CheckHash says what is wrong with a pin.
func CheckHash(h string) error {
	if !regexp.MustCompile(`^sha256:[0-9a-fA-F]{64}$`).MatchString(h) {
		return fmt.Errorf("%q is no pin: write sha256: and 64 hex digits.\n%s", shorten(h), HowToHash)
	}
	return nil
}

// CheckCredential says what is wrong with a credential's name, which is a file name for systemd.
func CheckCredential(name string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$`).MatchString(name) {
		return fmt.Errorf("%q is no name of a credential: letters, digits, dots, dashes and underscores", shorten(name))
	}
	return nil
}

// shorten keeps a message readable, and what may be a token pasted into the wrong place mostly out of it.
func shorten(s string) string {
	if r := []rune(s); len(r) > 20 {
		return string(r[:8]) + "…"
	}
	return s
}

// Import makes a site of an init-config, and checks it as `prelet validate` does.
func Import(name string, src []byte, o Options) Result {
	doc, diags := decode(name, src)
	if diags.HasErrors() {
		return Result{Diagnostics: diags}
	}
	r := &reader{src: src, diags: diags}
	c := r.config(doc)
	p := page{Source: path.Base(filepath.ToSlash(name)), Hashes: o.Hashes, Credential: o.Credential, config: c}
	r.resolve(&p)
	if r.diags.HasErrors() {
		return Result{Diagnostics: r.diags}
	}
	text, err := p.render()
	if err == nil {
		err = Check(text, o.Version)
	}
	if err != nil {
		return Result{Diagnostics: append(r.diags, origin.Error(fault.Internal, hcl.Range{}, "The site that was made is not valid", "This is a fault of prelet, nothing was written: %s", err))}
	}
	return Result{Text: text, Diagnostics: r.diags, Mended: p.mended(), Open: p.open()}
}

// Check says what `prelet validate --strict` would refuse of a site of one file.
func Check(text []byte, version string) error {
	s, diags := site.Parse([]world.SiteFile{{Name: FileName, Text: string(text)}}, site.Options{Stages: builtin.Stages(), Version: version})
	if !diags.HasErrors() {
		diags = append(diags, boot.Check(s, boot.Witnesses())...)
	}
	var bad []string
	for _, d := range diags {
		if !origin.IsNote(d) {
			bad = append(bad, d.Error())
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("%s", strings.Join(bad, "; "))
	}
	return nil
}

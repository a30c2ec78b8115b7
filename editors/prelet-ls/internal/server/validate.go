package server

import (
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/repository"
	"github.com/prelet/prelet/internal/lab/sites"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
)

// Request is the validation of one site.
type Request struct {
	Version        string            `json:"version"`        // of prelet, which required_version is compared with
	File           string            `json:"file"`           // absolute path, for findings without a place
	Places         []string          `json:"places"`         // absolute paths of the site
	Texts          map[string]string `json:"texts"`          // open documents, by absolute path
	KubeletVersion string            `json:"kubeletVersion"` // "": the sample machines' own
}

// Validated is the diagnostics of a validation, by file of the site.
type Validated map[string][]diagnostic

// Validate runs `prelet validate` over a site with the open documents. A setting that it refuses is a finding; the site
// is validated without it.
func Validate(r Request) Validated {
	var refused hcl.Diagnostics
	found, err := r.run(r.KubeletVersion)
	if err != nil {
		refused = hcl.Diagnostics{refusedSetting(r.File, err)}
		found, err = r.run("")
	}
	if err != nil {
		refused = append(refused, origin.Error(
			fault.Usage,
			hcl.Range{},
			"The site was not validated",
			"%v.",
			err,
		))
	}

	byFile := map[string]hcl.Diagnostics{}
	for _, d := range append(refused, found.Diagnostics...) {
		at := r.File
		if d.Subject != nil && path.IsAbs(d.Subject.Filename) {
			at = d.Subject.Filename
		}
		byFile[at] = append(byFile[at], d)
	}

	out := Validated{}
	for file, diags := range byFile {
		text, isOpen := r.Texts[file]
		if !isOpen && found.Site != nil {
			text = string(found.Site.Sources[file])
		}
		out[file] = convert(text, diags)
	}

	return out
}

// maxMachines bounds the machines of the repository that a site is planned on while somebody types.
const maxMachines = 8

func (r Request) run(kubelet string) (sites.Validated, error) {
	env := &machine.Env{
		Version:  r.Version,
		Getenv:   func(string) string { return "" },
		Redactor: secret.NewRedactor(),
		Say:      func(string) {},
	}

	files := newOverlay(r.Texts)
	w := lab.Request{Where: machine.Where{Config: r.Places, Files: files}, KubeletVersion: kubelet}
	found, diags := repository.Find(files, path.Dir(r.File))
	if isOfSite := slices.Equal(found.Layers, r.Places); isOfSite && !diags.HasErrors() {
		w.Repository = found
		w.Repository.MostMachines = maxMachines
	}

	return sites.Validate(env, sites.ValidateOptions{Request: w})
}

func refusedSetting(file string, err error) *hcl.Diagnostic {
	return origin.Error(
		fault.Usage,
		hcl.Range{Filename: file},
		"Invalid setting of the editor",
		"%v. The site was validated without it. Correct prelet.kubeletVersion in the settings of the editor.",
		err,
	)
}

// convert returns diagnostics as an editor shows them: the summary, then the reason and the next step, with a link to
// the page of the code.
func convert(text string, diags hcl.Diagnostics) []diagnostic {
	redactor := secret.NewRedactor()
	out := []diagnostic{}
	seen := map[diagnostic]bool{}

	for _, d := range diags {
		code := string(origin.CodeOf(d))
		x := diagnostic{
			Severity: severityError,
			Code:     code,
			Source:   "prelet",
			Message:  redactor.String(strings.TrimSuffix(d.Summary+"\n"+d.Detail, "\n")),
		}
		switch {
		case origin.IsNote(d):
			x.Severity = severityInformation
		case d.Severity == hcl.DiagWarning:
			x.Severity = severityWarning
		}
		if d.Subject != nil {
			x.Range = spanOf(text, *d.Subject)
		}
		if seen[x] { // the same on several sample machines
			continue
		}
		seen[x] = true
		x.CodeDescription = &codeDescription{Href: codePages + code + ".md"}
		out = append(out, x)
	}

	return out
}

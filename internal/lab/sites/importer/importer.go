// Package importer turns the input of other programs into a site: a JoinConfiguration of kubeadm with its patches, and
// the init-config of init-k8s-node.py, the script that sites used before prelet. Values become literals; properties
// that the script detected on the node (address, GPU, network card, port) become expressions over facts and files.
// Tokens are never in a result, and no message repeats a value that may contain one. It must not read or write files.
package importer

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"github.com/hashicorp/hcl/v2"
	kjson "sigs.k8s.io/json"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/stages/builtin"
)

// FileName is the name of the site's only file.
const FileName = "site.hcl"

// pinHelp explains where a pin comes from.
const pinHelp = "On a control plane, `kubeadm token create --print-join-command` prints it, and so does\n" +
	"    openssl x509 -in /etc/kubernetes/pki/ca.crt -noout -pubkey | openssl pkey -pubin -outform der | sha256sum\n" +
	"with sha256: before its 64 digits."

// CAHashHelp explains where a pin comes from, and why it is required.
const CAHashHelp = pinHelp + " To join without verifying TLS is not offered, because " +
	"any server that answered would get the bootstrap token and could configure the node."

var (
	hashPattern  = texts.LazyRegexp(`^sha256:[0-9a-fA-F]{64}$`)
	unknownField = texts.LazyRegexp(`unknown field "(.*)"`)
	wrongField   = texts.LazyRegexp(`cannot unmarshal (\S+) into Go struct field \S*?\.(\S+) of type (\S+)`)
	kindPattern  = texts.LazyRegexp(`\bkind["']?[ \t]*:`) // in JSON, or in the flow style of YAML
)

// Values are the values that an imported file lacks.
type Values struct {
	Hashes     []string // pins of the cluster's CA, "sha256:" and 64 hex digits; an init-config needs one
	Servers    []string // HOST:PORT; none: those of the file
	Credential string   // name of the systemd credential with the bootstrap token
	Patches    string   // folder of kubeadm's patches; "": that of the file
	Version    string   // of prelet, for the check of the result

	// ReadPatches returns the files of a folder, sorted by name.
	ReadPatches func(dir string) ([]PatchFile, error)
}

// Imported is a site with remarks.
type Imported struct {
	Text        []byte          // of FileName; nil if Diagnostics has an error
	Diagnostics hcl.Diagnostics // without places: they name fields
	From        string          // the program whose file was imported
	Credential  string          // name of the credential with the token; "": the site has none
	Differences []string        // from that program, for this file
	Open        []string        // decisions for a person before the site is used
}

// CheckHash checks a pin.
func CheckHash(h string) error {
	if !hashPattern().MatchString(h) {
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

// Import makes a site of a file, and checks it as `prelet validate` does.
func Import(name string, src []byte, o Values) Imported {
	r := &reader{}
	source := path.Base(filepath.ToSlash(name))
	var out Imported
	switch {
	case len(src) > lang.MaxBytes:
		r.refuse(fault.Limit, "This file is too large", "At most %d bytes are read.", lang.MaxBytes)
	case IsInitConfig(src):
		out = r.importInitConfig(source, src, o)
	default:
		out = r.importJoin(source, src, o)
	}
	out.Diagnostics = r.diags
	if r.diags.HasErrors() {
		out.Text = nil
	}

	return out
}

// IsInitConfig reports whether a text is the JSON of the script, whose import needs a pin. kubeadm reads JSON and YAML
// in its flow style too, with a kind.
func IsInitConfig(src []byte) bool {
	text := bytes.TrimLeft(src, " \t\r\n")

	return len(text) > 0 && (text[0] == '{' || text[0] == '[') && !kindPattern().Match(src)
}

// reader collects the findings about one file.
type reader struct{ diags hcl.Diagnostics }

func (r *reader) refuse(code fault.Code, summary, detail string, args ...any) {
	r.diags = append(r.diags, origin.Error(code, hcl.Range{}, summary, detail, args...))
}

func (r *reader) warn(code fault.Code, summary, detail string, args ...any) {
	r.diags = append(r.diags, origin.Warning(code, hcl.Range{}, summary, detail, args...))
}

func (r *reader) note(code fault.Code, summary, detail string, args ...any) {
	r.diags = append(r.diags, origin.Note(code, hcl.Range{}, summary, detail, args...))
}

// decode decodes JSON into a struct, with the case of its fields. It reports values that it cannot decode, and returns
// the fields that the struct does not have.
func (r *reader) decode(text []byte, into any) (unknown []string) {
	strict, err := kjson.UnmarshalStrict(text, into)
	isSyntax, offset := kjson.SyntaxErrorOffset(err)
	if !utf8.Valid(text) {
		isSyntax, err = true, errors.New("this is not UTF-8")
	}
	switch at := wrongField().FindStringSubmatch(fmt.Sprint(err)); {
	case isSyntax:
		line := 1 + bytes.Count(text[:min(int(offset), len(text))], []byte("\n"))
		r.refuse(fault.Syntax, "Invalid JSON", "Line %d: %s. JSON has neither comments nor trailing commas.", line, err)
	case at != nil:
		r.refuse(fault.WrongType, "Wrong type for "+at[2],
			"It is of type %s. Write %s of type %s.", at[1], at[2], at[3])
	case err != nil:
		r.refuse(fault.WrongType, "An object is needed", "%s.", err)
	}
	for _, u := range strict {
		if m := unknownField().FindStringSubmatch(u.Error()); m != nil {
			unknown = append(unknown, m[1])
		}
	}

	return unknown
}

// finish makes the result of a page, if the file had no error.
func (r *reader) finish(from, text string, p data, o Values) Imported {
	out := Imported{From: from, Credential: p.token()}
	if r.diags.HasErrors() {
		return out
	}
	t, err := parseTemplate(text)
	if err == nil {
		out.Differences, err = execute(t, "differences", p)
	}
	if err == nil {
		out.Open, err = execute(t, "open", p)
	}
	if err == nil {
		out.Text, err = r.render(t, p, o)
	}
	if err != nil {
		r.refuse(fault.Internal, "The imported site is not valid",
			"This is a bug of prelet, nothing was written: %s", err)
	}

	return out
}

func execute(t *template.Template, name string, p data) (lines []string, err error) {
	var text strings.Builder
	err = t.ExecuteTemplate(&text, name, p)
	for line := range strings.Lines(text.String()) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}

	return lines, err
}

// render returns a site's text in its canonical form, and reports the diagnostics of its validation. A foreign file may
// have any flag and any field, so a setting that the kubelet would refuse is a finding. An invalid site is an error: a
// bug of this package.
func (r *reader) render(t *template.Template, p data, o Values) ([]byte, error) {
	lines, err := execute(t, FileName, p)
	if err != nil {
		return nil, err
	}
	text, diags := lang.FormatFile(FileName, []byte(strings.Join(lines, "\n")+"\n"))
	if diags.HasErrors() {
		return nil, diags
	}

	s, diags := parse(text, o.Version)
	for _, d := range diags {
		if origin.CodeOf(d) == fault.Sensitive && d.Severity == hcl.DiagError {
			r.refuse(fault.Sensitive, "The file has a secret that a site must not have", "%s, in line %d of the "+
				"site that would be written. Remove it from the file, and write it into the site by "+
				"credential(\"NAME\").",
				d.Summary, d.Subject.Start.Line)
		}
	}
	if r.diags.HasErrors() {
		return nil, nil
	}
	if diags.HasErrors() {
		return nil, diags
	}
	for _, d := range evaluate.Check(s, evaluate.SampleMachines(), evaluate.CheckOptions{}) {
		if origin.IsNote(d) {
			continue
		}
		report := r.warn
		if d.Severity == hcl.DiagError {
			report = r.refuse
		}
		report(origin.CodeOf(d), d.Summary, "prelet validate reports of the site: %s", d.Detail)
	}

	return text, nil
}

func parse(text []byte, version string) (*lang.Site, hcl.Diagnostics) {
	files := []tape.SiteFile{{Name: FileName, Text: string(text)}}

	return lang.Parse(files, lang.LoadOptions{Stages: builtin.Stages(), Version: version})
}

package commit

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// collectSources returns the place in the site of each item of the plan. The keys are the names of items in package
// failure. With it the message about a kubelet that rejects a label contains the line of the site, days later and
// without the site.
func collectSources(p *evaluate.Plan) map[string]string {
	out := map[string]string{}

	put := func(item string, from []origin.Origin) {
		if at := describeOrigins(from); at != "" && out[item] == "" {
			out[item] = at
		}
	}
	for _, l := range p.Node.Labels {
		put("label/"+l.Key, l.Origins)
		put("label-value/"+l.Value, l.Origins)
	}

	for _, t := range p.Node.Taints {
		put("taint/"+t.Key, t.Origins)
	}

	for _, f := range p.Node.Flags {
		put("flag/"+f.Name, f.Origins)
	}

	for _, s := range p.Node.Settings {
		field := "config"
		for i, name := range s.Path { // an error may name a field, a parent or a leaf
			field += map[bool]string{true: "/", false: "."}[i == 0] + name
			put(field, s.Origins)
		}

		if text, ok := s.Value.(string); ok {
			put("config-value/"+text, s.Origins)
		}
	}

	for _, f := range p.Node.Files {
		put("file/"+f.Path, f.Origins)

		if f.Purpose == "file" {
			collectFlags(p, f, put)
		}
	}

	if p.Site != nil && p.Site.Cluster != nil {
		put("cluster/token", []origin.Origin{{Ref: "cluster", Range: tokenRange(p)}})
	}

	return out
}

// collectFlags finds flags in the site's own files: a drop-in of a unit, or another environment file. No rule checks
// these flags, but a kubelet that fails on one is reported with the line.
func collectFlags(p *evaluate.Plan, f desired.File, put func(string, []origin.Origin)) {
	isSeparator := func(r rune) bool {
		return unicode.IsSpace(r) || r == '"' || r == '\''
	}

	for _, word := range strings.FieldsFunc(f.Text.Template(), isSeparator) {
		before, flag, found := strings.Cut(word, "--")
		if !found || before != "" && !strings.HasSuffix(before, "=") { // also NAME=--flag
			continue
		}

		name, value, _ := strings.Cut(flag, "=")
		from := findLine(p, f.Origins, "--"+flag, "--"+name) // the value may come from elsewhere
		name = kubelet.FlagName(name)
		put("flag/"+name, from)

		kind := map[string]string{"node-labels": "label/", "register-with-taints": "taint/"}[name]
		if kind != "" {
			for _, item := range strings.Split(value, ",") {
				key, _, _ := strings.Cut(item, "=")
				key, _, _ = strings.Cut(key, ":")
				put(kind+key, from)
			}
		}
	}
}

// findLine returns the first origin whose text in the site contains one of the words, narrowed to its position;
// otherwise all origins.
func findLine(p *evaluate.Plan, from []origin.Origin, words ...string) []origin.Origin {
	for _, word := range words {
		for _, o := range from {
			src := p.Site.Sources[o.Range.Filename]
			if !o.Range.CanSliceBytes(src) {
				continue
			}

			before, _, found := bytes.Cut(o.Range.SliceBytes(src), []byte(word))
			if !found {
				continue
			}

			at := &o.Range.Start
			if lines := bytes.Count(before, []byte("\n")); lines > 0 {
				at.Line = at.Line + lines
				at.Column = 1
				before = before[bytes.LastIndexByte(before, '\n')+1:]
			}

			at.Column += utf8.RuneCount(before)

			return []origin.Origin{o}
		}
	}

	return from
}

func tokenRange(p *evaluate.Plan) hcl.Range {
	if a := p.Site.Cluster.Attributes["token"]; a != nil {
		return a.SrcRange
	}

	return p.Site.Cluster.SrcRange
}

// describeOrigins returns the place for a message: the first one in the site, or a description.
func describeOrigins(from []origin.Origin) string {
	for _, o := range from {
		if o.Range.Filename != "" {
			return strings.TrimSuffix(origin.Place(o.Range).String()+", "+o.Ref, ", ")
		}
	}

	for _, o := range from {
		if o.Kind == origin.Base {
			return strings.TrimSpace("of the base " + o.Ref)
		}
	}

	return ""
}

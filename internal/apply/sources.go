package apply

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
)

// sources says of each item of the plan where it was written, by the names that package failure gives to items: a kubelet that
// refuses a label is told with the line of the site that set it, days later and without the site at hand.
func collectSources(p *boot.Plan) map[string]string {
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
		for i, name := range s.Path { // an error about a field may be told of what is around it, or of a leaf
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

// flagsIn finds flags in a file of the site's own: a unit's drop-in, or the environment file of somebody else. No rule judges
// them, and the kubelet that ends on one is told with the line that has it.
func collectFlags(p *boot.Plan, f node.File, put func(string, []origin.Origin)) {
	for _, word := range strings.FieldsFunc(f.Text.Template(), func(r rune) bool { return unicode.IsSpace(r) || r == '"' || r == '\'' }) {
		before, flag, found := strings.Cut(word, "--")
		if !found || before != "" && !strings.HasSuffix(before, "=") { // also NAME=--flag
			continue
		}

		name, value, _ := strings.Cut(flag, "=")
		from := findLine(p, f.Origins, "--"+flag, "--"+name) // its value may come from elsewhere
		put("flag/"+name, from)

		if kind := map[string]string{"node-labels": "label/", "register-with-taints": "taint/"}[name]; kind != "" {
			for _, item := range strings.Split(value, ",") {
				key, _, _ := strings.Cut(item, "=")
				key, _, _ = strings.Cut(key, ":")
				put(kind+key, from)
			}
		}
	}
}

// lineOf is the first origin whose text in the site has one of the words, narrowed to where that stands; else all of them.
func findLine(p *boot.Plan, from []origin.Origin, words ...string) []origin.Origin {
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
				at.Line, at.Column = at.Line+lines, 1
				before = before[bytes.LastIndexByte(before, '\n')+1:]
			}

			at.Column += utf8.RuneCount(before)

			return []origin.Origin{o}
		}
	}

	return from
}

func tokenRange(p *boot.Plan) hcl.Range {
	if a := p.Site.Cluster.Attributes["token"]; a != nil {
		return a.SrcRange
	}

	return p.Site.Cluster.SrcRange
}

// describeOrigins is the place that a message names: the first one in the site, or else in words.
func describeOrigins(from []origin.Origin) string {
	for _, o := range from {
		if o.Range.Filename != "" {
			return strings.TrimSuffix(fmt.Sprintf("%s:%d:%d, %s", o.Range.Filename, o.Range.Start.Line, o.Range.Start.Column, o.Ref), ", ")
		}
	}

	for _, o := range from {
		if o.Kind == origin.Base {
			return strings.TrimSpace("of the base " + o.Ref)
		}
	}

	return ""
}

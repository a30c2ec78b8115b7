package fleet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

// NewEffect returns the changes of a plan on the disk of the machine of a recording.
func NewEffect(source string, p *boot.Plan, r *world.Recording) Effect {
	own := newNames(p, r)
	e := Effect{Machine: Machine{Source: source, Node: p.NodeName()}}
	e.Messages = listMessages(p.Diagnostics, own)
	for _, c := range p.Changes {
		if !c.Changes() {
			continue
		}
		e.Changes = append(e.Changes, listFileChanges(p, c)...)
		if !isShown(c) {
			e.hide(c.File.Path, c.File.Text.Template(), own)
		}
	}
	e.Waits = count(isWaiting(p, e.Changes))
	e.Restarts = count(p.Restart.Needed)
	e.finish(p, own)

	return e
}

// isWaiting reports whether a changed label or taint takes effect only when a node that has joined registers again.
func isWaiting(p *boot.Plan, changes []Change) bool {
	if !p.Kubelet.Joined {
		return false
	}
	for _, c := range changes {
		isLate := c.Kind == "label" && p.TakesEffect(c.Name) == "registration"
		if isLate || c.Kind == "taint" {
			return true
		}
	}

	return false
}

// listFileChanges returns the change of a file, and of the kubelet's own files what changes in them. Of a new
// configuration it lists the fields that the site sets; the others are in the diff.
func listFileChanges(p *boot.Plan, c boot.Change) []Change {
	file := Change{Kind: "file", Name: c.File.Path, Action: c.Action}
	if c.Action == "update" {
		file.From = describeMeta(c.Old.Mode, c.Old.Owner)
		file.To = describeMeta(c.Mode(), c.Owner())
		if file.From == file.To {
			file.From = ""
			file.To = ""
		}
	}
	if !isShown(c) {
		return []Change{file}
	}

	before := c.Old.Text
	after := c.File.Text.Template()
	var inner []Change
	switch c.File.Purpose {
	case "kubelet-flags":
		inner = compareFlagFiles(before, after)
	case "kubelet-config":
		inner = compareConfig(before, c.File.Config)
	}
	file.Listed = len(inner) > 0
	isNewConfig := c.File.Purpose == "kubelet-config" && !c.Old.Exists
	if isNewConfig {
		inner = slices.DeleteFunc(inner, func(field Change) bool {
			return field.Kind == "config" && !isOfSite(p, field.Name)
		})
	}
	if isNewConfig || !file.Listed {
		file.Diff = changedLines(before, after)
	}

	return append(inner, file)
}

// isOfSite reports whether the site sets a field of the kubelet's configuration, and not only its base.
func isOfSite(p *boot.Plan, name string) bool {
	for pointer := range p.Node.ConfigOrigins {
		field := strings.ReplaceAll(strings.TrimPrefix(pointer, "/"), "/", ".")
		if name == field || strings.HasPrefix(name, field+".") {
			return true
		}
	}

	return false
}

// isShown reports whether a plan shows the difference of the content: not of secrets, and not of files that only root
// may read.
func isShown(c boot.Change) bool {
	isSecret := len(c.File.Text.Secrets()) > 0 || c.File.Purpose == "identity"
	isCompared := c.Old.Uncompared == "" && !c.Old.Private

	return c.File.Kind == node.Regular && !isSecret && isCompared
}

func describeMeta(mode uint32, owner string) string {
	if owner == "" {
		owner = "root:root"
	}

	return fmt.Sprintf("%04o %s", mode, owner)
}

// changedLines returns the removed and added lines of a text, each after - or +. Lines around them, which may differ
// between machines, are left out.
func changedLines(before, after string) string {
	const header = 3 // "diff", "---" and "+++"

	var out strings.Builder
	text := string(diff.Diff("before", []byte(before), "after", []byte(after)))
	for i, line := range strings.SplitAfter(text, "\n") {
		if i >= header && (strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-")) {
			out.WriteString(line)
		}
	}

	return out.String()
}

package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// rule chooses devices of one vendor by their name in pci.ids, and says how to write that name.
type rule struct {
	vendor  string
	match   *regexp.Regexp
	bracket bool   // the text in the last brackets, which is the product; else the whole name, which begins with the chip
	prefix  string // what the vendor's tools print in front
}

// parseRules reads lines "vendor, regular expression, whole or bracket, prefix". A line that begins with # is a comment.
func parseRules(text string) ([]rule, error) {
	var rules []rule
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 4 || len(f[0]) != 4 || f[2] != "whole" && f[2] != "bracket" {
			return nil, fmt.Errorf("rules: %q", line)
		}
		match, err := regexp.Compile(f[1])
		if err != nil {
			return nil, fmt.Errorf("rules: %q: %w", line, err)
		}
		rules = append(rules, rule{f[0], match, f[2] == "bracket", f[3]})
	}
	return rules, nil
}

// name applies the first rule that fits.
func name(rules []rule, vendor, text string) (string, bool) {
	for _, r := range rules {
		if r.vendor != vendor || !r.match.MatchString(text) {
			continue
		}
		if r.bracket {
			open, end := strings.LastIndex(text, "["), strings.LastIndex(text, "]")
			if open < 0 || end < open {
				return "", false
			}
			text = text[open+1 : end]
		}
		return r.prefix + text, true
	}
	return "", false
}

// devices calls each with the vendors and devices of a pci.ids, by its line. Subsystems and classes are passed over.
func devices(database string, each func(line, vendor, device, name string)) {
	vendor := ""
	for line := range strings.Lines(database) {
		text := strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(text, "C "): // classes come last
			return
		case text == "" || strings.HasPrefix(text, "#") || strings.HasPrefix(text, "\t\t"):
		case strings.HasPrefix(text, "\t"):
			id, name, ok := strings.Cut(text[1:], "  ")
			if ok && vendor != "" {
				each(line, vendor, id, name)
			}
		default:
			id, name, _ := strings.Cut(text, "  ")
			vendor = id
			each(line, vendor, "", name)
		}
	}
}

// extract keeps the head of a pci.ids, which has its version and licence, and the lines that rules choose.
func extract(database string, rules []rule) (string, error) {
	var head, body strings.Builder
	for line := range strings.Lines(database) {
		if !strings.HasPrefix(line, "#") {
			break
		}
		head.WriteString(line)
	}
	if !strings.Contains(head.String(), "Version:") {
		return "", errors.New("pci.ids: its head names no version")
	}
	vendorLine := ""
	devices(database, func(line, vendor, device, text string) {
		if device == "" {
			vendorLine = line
			return
		}
		if _, ok := name(rules, vendor, text); ok {
			body.WriteString(vendorLine + line)
			vendorLine = ""
		}
	})
	return head.String() + "#\n#\tOnly the devices that prelet names are left.\n#\n" + body.String(), nil
}

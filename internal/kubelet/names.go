package kubelet

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
)

// The rules for names are those of Kubernetes' own package, and so are the words for what is wrong. A name of which a look at its
// letters tells that it is right is not taken there: it matches regular expressions, and each takes 40 KB to run.

// SubdomainFaults says what keeps a name from being a DNS subdomain as RFC 1123 has it; nil: nothing.
func SubdomainFaults(s string) []string {
	if plainSubdomain(s) {
		return nil
	}
	return content.IsDNS1123Subdomain(s)
}

// DNSLabelFaults says what keeps a name from being a DNS label as RFC 1123 has it; nil: nothing.
func DNSLabelFaults(s string) []string {
	if plainDNSLabel(s) {
		return nil
	}
	return content.IsDNS1123Label(s)
}

func labelKeyFaults(s string) []string {
	prefix, name, ok := strings.Cut(s, "/")
	if ok && plainSubdomain(prefix) && plainName(name) || !ok && plainName(s) {
		return nil
	}
	return content.IsLabelKey(s)
}

func labelValueFaults(s string) []string {
	if s == "" || plainName(s) {
		return nil
	}
	return content.IsLabelValue(s)
}

func plainSubdomain(s string) bool {
	if len(s) > content.DNS1123SubdomainMaxLength {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if !inside(label, func(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }, "-") {
			return false
		}
	}
	return true
}

func plainDNSLabel(s string) bool {
	return len(s) <= content.DNS1123LabelMaxLength && !strings.Contains(s, ".") && plainSubdomain(s)
}

// plainName is a label's value, or its key without the prefix.
func plainName(s string) bool {
	const most = 63
	return len(s) <= most && inside(s, func(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' }, "-_.")
}

// inside tells that a text begins and ends with a letter, and has only letters and marks between.
func inside(s string, letter func(byte) bool, marks string) bool {
	if s == "" || !letter(s[0]) || !letter(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if !letter(s[i]) && strings.IndexByte(marks, s[i]) < 0 {
			return false
		}
	}
	return true
}

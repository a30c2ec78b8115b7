package reference

import (
	"regexp"
	"strings"
	"testing"
)

func TestPagesLinkToTheirStatus(t *testing.T) {
	md := codePages()["cluster-untrusted.md"]
	if !strings.Contains(md, "[21](../reference/exit-codes.md)") || !strings.HasPrefix(md, "# cluster-untrusted\n") {
		t.Errorf("got this page, want its title and a link to its status:\n%s", md)
	}

	index := codePages()["README.md"]
	if !regexp.MustCompile(`(?m)^\| 21 \|.*\[cluster-untrusted\]`).MatchString(index) ||
		!regexp.MustCompile(`(?m)^\| warning \|.*\[drift\]`).MatchString(index) {
		t.Errorf("index of codes: want 21 for cluster-untrusted, and drift as a warning, got\n%s", index)
	}

	if md := codePages()["drift.md"]; strings.Contains(md, "Exit status:") {
		t.Errorf("got this page of a warning, want no exit status:\n%s", md)
	}
}

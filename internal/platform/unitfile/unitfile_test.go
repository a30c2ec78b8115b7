package unitfile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/platform/unitfile"
)

// TestParse checks the syntax of unit files by systemd.syntax(7).
func TestParse(t *testing.T) {
	const text = "\ufeffA=none\n[Unit]\n# A=comment \\\nA = 1 \n ; A=2\nno setting\nB=x \\\n  # between\n\ty\\\\\n" +
		"C=\\\n\n[Service]\r\nA=\r\nA==b\nD=end \\"
	var got []string
	for _, s := range unitfile.Parse(text) {
		got = append(got, fmt.Sprintf("%s/%s=%s", s.Section, s.Name, s.Value))
	}
	want := []string{"/A=none", "Unit/A=1", `Unit/B=x  y\\`, "Unit/C=", "Service/A=", "Service/A==b", "Service/D=end"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}

// TestLongLine parses what follows a line of more than 2048 bytes: go-systemd's package unit rejects such a file.
func TestLongLine(t *testing.T) {
	text := "[Service]\nSetCredential=other:" + strings.Repeat("x", 4096) + "\nLoadCredential=token:/root/token\n"
	got, isSet := unitfile.Last(text, "Service", "LoadCredential")
	if want := "token:/root/token"; got != want || !isSet {
		t.Errorf("after a line of 4096 bytes: got %q, %t; want %q, true", got, isSet, want)
	}
}

// TestSelect checks which files are of a unit, and their order.
func TestSelect(t *testing.T) {
	const etc, usr = "/etc/systemd/system/", "/usr/lib/systemd/system/"
	files := []string{
		usr + "kube-let@a.service", etc + "kube-let@a.service", etc + "kube-let@a.service.d/30.conf",
		usr + "kube-let@a.service.d/30.conf", usr + "kube-let@.service.d/20.conf", etc + "kube-.service.d/10.conf",
		usr + "service.d/40.conf", "/etc/systemd/system.control/kube-let@a.service.d/50.conf", usr + "alias.service.d/60.conf",
		etc + "kube-let.service.d/70.conf", etc + "kube-let@a.service.d/80.txt", "/opt/kube-let@a.service.d/90.conf",
	}
	want := []string{
		etc + "kube-let@a.service", etc + "kube-.service.d/10.conf", usr + "kube-let@.service.d/20.conf",
		etc + "kube-let@a.service.d/30.conf", usr + "service.d/40.conf",
		"/etc/systemd/system.control/kube-let@a.service.d/50.conf", usr + "alias.service.d/60.conf",
	}
	if got := unitfile.Select([]string{"kube-let@a.service", "alias.service"}, files); !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}

// FuzzParse checks that each text has settings with a name of one line.
func FuzzParse(f *testing.F) {
	f.Add("[Unit]\nA=1\\\n2\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range unitfile.Parse(text) {
			if slices.Contains([]byte(s.Name), '\n') {
				t.Errorf("got name %q of %q; want one line", s.Name, text)
			}
		}
	})
}

package write

import (
	"strings"
	"testing"
)

func TestCheckPath(t *testing.T) {
	for path, want := range map[string]string{
		"/etc/kubernetes/cloud.conf":             "",
		"/var/lib/prelet-exporter/config":        "",
		"/run/preletd":                           "",
		"/device":                                "",
		"etc/x":                                  "not an absolute path",
		"/":                                      "not a clean path",
		"/etc/../x":                              "not a clean path",
		"/etc//x":                                "not a clean path",
		"/etc/a\nb":                              "a character that no path should",
		"/proc/sys/kernel/panic":                 "the kernel's",
		"/sys":                                   "the kernel's",
		"/dev/null":                              "the kernel's",
		"/run/prelet":                            "prelet's own folder",
		"/run/prelet/kubelet.env":                "prelet's own folder",
		"/run/prelet/status.json":                "prelet's own folder",
		"/var/lib/prelet/journal.json":           "prelet's own folder",
		"/var/lib/prelet/generations/1/new/file": "prelet's own folder",
	} {
		err := checkPath(path)
		switch {
		case want == "" && err != nil:
			t.Errorf("%q is refused: %v", path, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want an error with %q", path, err, want)
		}
	}
}

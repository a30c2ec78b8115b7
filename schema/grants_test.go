package schema

import (
	"strings"
	"testing"
)

// TestGrants checks that no grant covers all devices or the whole machine, and that each message names a form that is
// accepted.
func TestGrants(t *testing.T) {
	for _, c := range []struct {
		path, devices, read string // what the message contains; "": it is granted
	}{
		{"/dev/nvidia*", "", ""},
		{"/dev/dri/card0", "", ""},
		{"/dev/dri", "", ""},
		{"/dev", "all devices", ""},
		{"/dev/*", "all devices", ""},
		{"/dev/??*", "all devices", ""},
		{"/dev/**", "**", "**"},
		{"/", "the whole machine", "the whole machine"},
		{"//", "the whole machine", "the whole machine"},
		{"/*", "every folder", "every folder"},
		{"/*/nvidia0", "every folder", "every folder"},
		{"dev/nvidia0", `"/dev/nvidia0"`, `"/dev/nvidia0"`},
		{"/dev/../dev/nvidia0", `"/dev/nvidia0"`, `"/dev/nvidia0"`},
		{"/dev/[", "not a valid pattern", "not a valid pattern"},
	} {
		check := func(attribute string, got error, want string) {
			if want == "" && got != nil || want != "" && (got == nil || !strings.Contains(got.Error(), want)) {
				t.Errorf("%s = [%q]: got %v, want %q", attribute, c.path, got, want)
			}
		}
		check("devices", grantableDevices([]string{"/dev/null", c.path}), c.devices)
		check("read", grantable([]string{"/etc/hostname", c.path}), c.read)
	}
}

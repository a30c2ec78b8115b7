package schema

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

// TestGrants checks that no grant covers all devices or the whole machine, and that each message names a form that is
// accepted.
func TestGrants(t *testing.T) {
	for _, c := range table.YAML[[]struct {
		Path, Devices, Read string // what the message contains; "": it is granted
	}](t, `
- {path: /dev/nvidia*}
- {path: /dev/dri/card0}
- {path: /dev/dri}
- {path: /dev, devices: all devices}
- {path: /dev/*, devices: all devices}
- {path: '/dev/??*', devices: all devices}
- {path: '/dev/[a-z]*', devices: all devices}
- {path: '/dev/[^x]*', devices: all devices}
- {path: '/dev/[a-z]*[0-9]', devices: all devices}
- {path: '/dev/*m*', devices: all devices}
- {path: '/d?v', devices: all devices}
- {path: '/d*/*', devices: all devices}
- {path: '/dev/*/*', devices: all devices}
- {path: '/dev/*d*', devices: all devices}
- {path: '/dev/s*', devices: all devices}
- {path: '/dev/d*/*', devices: all devices}
- {path: '/dev/nv*', devices: all devices}
- {path: '/dev/dri/*'}
- {path: '/dev/sg?'}
- {path: '/dev/[sv]d*'}
- {path: '/dev/infiniband/uverbs[0-9]*'}
- {path: /dev/**, devices: '**', read: '**'}
- {path: /, devices: the whole machine, read: the whole machine}
- {path: //, devices: the whole machine, read: the whole machine}
- {path: /*, devices: every folder, read: every folder}
- {path: '/[a-z]*/nvidia0', devices: every folder, read: every folder}
- {path: '/???/nvidia0', devices: every folder, read: every folder}
- {path: /*/nvidia0, devices: every folder, read: every folder}
- {path: dev/nvidia0, devices: '"/dev/nvidia0"', read: '"/dev/nvidia0"'}
- {path: /dev/../dev/nvidia0, devices: '"/dev/nvidia0"', read: '"/dev/nvidia0"'}
- {path: '/dev/[', devices: not a valid pattern, read: not a valid pattern}
`) {
		check := func(attribute string, got error, want string) {
			if want == "" && got != nil || want != "" && (got == nil || !strings.Contains(got.Error(), want)) {
				t.Errorf("%s = [%q]: got %v, want %q", attribute, c.Path, got, want)
			}
		}
		check("devices", grantableDevices([]string{"/dev/null", c.Path}), c.Devices)
		check("read", grantable([]string{"/etc/hostname", c.Path}), c.Read)
	}
}

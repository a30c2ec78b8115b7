package boot

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// What systemd itself thinks of the units.
func TestUnits(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.Boot()
	units := []string{"prelet.service", "prelet-apply.service", "prelet-verify.service", "prelet-boot-check.service"}
	m.put("/etc/systemd/system/wrong.service", "[Service]\nExecStart=/bin/true\nNoSuchKey=1\n")
	verified := m.Try(
		append(
			[]string{"systemd-analyze", "verify", "--man=no", "wrong.service", "kubelet.service"},
			units...)...).Errors
	if !strings.Contains(verified, "Unknown key 'NoSuchKey'") {
		t.Fatalf("systemd-analyze verify sees nothing: got %s; want text with \"Unknown key 'NoSuchKey'\"", verified)
	}
	for line := range strings.Lines(verified) {
		// The one that 252 does not know yet, and says so.
		if !strings.Contains(line, "prelet") && !strings.Contains(line, "kubelet") ||
			strings.Contains(line, "Unknown key 'ImportCredential'") {
			continue
		}
		t.Errorf("systemd-analyze verify: %s", line)
	}
	exposure := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`)
	for _, unit := range units {
		out := m.Try("systemd-analyze", "security", "--no-pager", unit).Out
		level := exposure.FindStringSubmatch(out)
		if level == nil {
			t.Errorf("%s: got %s; want level other than nil", unit, out)
			continue
		}
		if n, err := strconv.ParseFloat(level[1], 64); err != nil || n > 2.6 {
			t.Errorf("%s: exposure %s, want at most 2.6\n%s", unit, level[1], out)
		}
		t.Logf("%s: %s", unit, level[1])
	}
}

package kubeletbin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/secret"
)

// TestLastLineOfWrapper: why a program that starts the kubelet fails is in its last line, and if that names a folder
// which systemd hides from prelet, the setting is named.
func TestLastLineOfWrapper(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	file := filepath.Join(root, "opt/bin/kubelet")
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	writeProgram(t, file, "#!/bin/sh\nprintf 'begin\\r\\n/root/kubelet: not \\033found\\r\\n' >&2\nexit 127\n")

	_, err := Find(root, "", nil).Version(context.Background(), true)
	const want = "kubelet --version: exit status 127: /root/kubelet: not "
	if err == nil || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\r\n\x1b") {
		t.Errorf("Version: got %q, want %q and the line as visible text", err, want)
	}

	for line, wantHidden := range map[string]bool{
		"exec: /root/kubelet: not found": true,
		"/home/k/bin/kubelet: No such":   true,
		"/rooted/kubelet: not found":     false,
		"no such file":                   false,
	} {
		for _, isHidden := range []bool{false, true} {
			err := addLastLine(os.ErrNotExist, line+"\n", func(string) bool { return isHidden })
			if got := strings.Contains(err.Error(), "ProtectHome="); got != (wantHidden && isHidden) {
				t.Errorf("%q, hidden %t: got %q, want ProtectHome= named: %t", line, isHidden, err, wantHidden && isHidden)
			}
		}
	}
}

// TestCutSecret: of a secret at the cut of a long last line no part is in the message.
func TestCutSecret(t *testing.T) {
	t.Parallel()
	const canary = "TOPSECRETvalue0123456789"
	redactor := secret.NewRedactor()
	redactor.Add([]byte(canary))
	file := filepath.Join(t.TempDir(), "opt/bin/kubelet")
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	for _, left := range []int{len(canary) - 4, 8} {
		line := canary + strings.Repeat("y", maxLastLine-left)
		writeProgram(t, file, "#!/bin/sh\necho "+line+" >&2\nexit 1\n")

		_, err := Find(strings.TrimSuffix(file, "/opt/bin/kubelet"), "", nil).Version(t.Context(), true)
		if got := redactor.String(fmt.Sprint(err)); !strings.Contains(got, ": …(sensitive)yyy") {
			t.Errorf("%d bytes of the secret are kept: got %.80q, want them hidden", left-1, got)
		}
	}
}

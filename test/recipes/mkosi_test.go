package recipes

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMkosi boots the image with what a hypervisor or a container manager would pass: credentials, and nothing on disk.
func TestMkosi(t *testing.T) {
	m := newMachine(t, "mkosi")
	token := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(token, []byte(shared.token+"\n"), 0o600))

	m.Boot(
		"--load-credential=bootstrap-token:"+token,
		"--set-credential=prelet.var.api_server:"+shared.url,
		"--set-credential=prelet.var.ca_cert_hash:"+shared.pin,
		"--set-credential=prelet.var.zone:az1-r07",
	)
	m.requireJoined("az1-r07")
}

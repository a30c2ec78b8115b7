package unitfile

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/internal/testing/table"
)

// TestFindMissing checks what keeps a unit from starting, for each setting with a path that must exist.
func TestFindMissing(t *testing.T) {
	t.Parallel()
	for line, isMissing := range table.YAML[map[string]bool](t, `
WorkingDirectory=/srv/no-such-path: true
"WorkingDirectory=/srv/no-such-path\nWorkingDirectory=/": false
WorkingDirectory=-/srv/no-such-path: false
WorkingDirectory=~: false
WorkingDirectory=/srv/no-such-path/%i: false
"WorkingDirectory=/srv/no-such-path\nTemporaryFileSystem=/srv": false
WorkingDirectory=/home/no-such-user: false
"WorkingDirectory=/var/lib/no-such/a\nStateDirectory=no-such other": false
"WorkingDirectory=/var/lib/no-such-b\nStateDirectory=no-such": true
User=no-such-user: true
"User=no-such-user\nDynamicUser=yes": false
User=root: false
User=65534: false
Group=no-such-group: true
LoadCredential=x:/srv/no-such-path: true
"LoadCredential=x:/srv/no-such-path\nSetCredential=x:y": false
LoadCredential=x: false
LoadCredential=x:name: false
LoadCredentialEncrypted=x:/srv/no-such-path: true
EnvironmentFile=/srv/no-such-path: true
"EnvironmentFile=/srv/no-such-path\nEnvironmentFile=": false
EnvironmentFile=-/srv/no-such-path: false
EnvironmentFile=/srv/no-such-path/*.env: false
EnvironmentFile=/run/prelet/kubelet.env: false
ReadWritePaths=/etc -/srv/no-such-path: false
ReadWritePaths=/etc +/srv/no-such-path: true
ReadOnlyPaths=/srv/no-such-path: true
BindPaths=/srv/no-such-path:/mnt: true
BindPaths=-/srv/no-such-path:/mnt: false
ExecStartPre=/srv/no-such-path --token=x: true
ExecStartPre=+/srv/no-such-path: true
ExecStartPre=-/srv/no-such-path: false
"ExecStartPre=/bin/sh -c true\nExecStartPre=/srv/no-such-path": false
ExecStartPre=no-such-program: false
ExecCondition=/srv/no-such-path: true
ExecStartPost=/srv/no-such-path: true
"[Install]\nUser=no-such-user": false
ReadWritePaths="/srv/no-such-path": false
`) {
		file := filepath.Join(t.TempDir(), "90-other.conf")
		osfile.Write(t, file, "[Service]\n"+line+"\n", 0o600)
		u := Unit{Definition: Definition{Load: "loaded"}, State: State{Active: "active"}, Files: []string{"/no-such.service", file}}
		got := u.FindMissing(nil)
		setting, _, _ := strings.Cut(line, "=")
		if got.Why != "" != isMissing {
			t.Errorf("%q: got %q, want that something is missing: %t", line, got.Why, isMissing)
		}
		if isMissing && (!strings.Contains(got.Why, setting+"= in "+file) || strings.Contains(got.Why, "token")) {
			t.Errorf("%q: got %q, want the setting and its file, and no argument", line, got.Why)
		}

		if got := u.FindMissing(func(p string) bool { return p == got.Path }); got.Why != "" {
			t.Errorf("%q: got %q, want nothing where a commit brings it", line, got.Why)
		}
		u.Active = "activating"
		if got := u.FindMissing(nil); got.Why != "" {
			t.Errorf("%q: got %q, want nothing at a boot, where another unit may bring it", line, got.Why)
		}
	}
}

// TestDescribeMissing names what is missing in the result of a start that failed for it.
func TestDescribeMissing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "90-other.conf")
	text := "[Service]\nEnvironmentFile=" + Gate + "\nEnvironmentFile=/srv/no-env\nWorkingDirectory=/srv/no-folder\n"
	osfile.Write(t, file, text, 0o600)
	for _, c := range table.YAML[[]struct {
		Result string
		Status int32
		Want   string
	}](t, `
- {result: exit-code, status: 200,
   want: 'exit-code: 200/CHDIR: /srv/no-folder does not exist (WorkingDirectory= in {file})'}
- {result: resources, status: 0, want: 'resources: /srv/no-env does not exist (EnvironmentFile= in {file})'}
- {result: exit-code, status: 217, want: 'exit-code: 217/USER'}
- {result: exit-code, status: 1, want: exit-code}
`, "file", file) {
		u := Unit{Definition: Definition{Load: "loaded"}, State: State{Result: c.Result, Status: c.Status}, Files: []string{file}}
		if got := u.DescribeResult(); got != c.Want {
			t.Errorf("%s, %d: got %q, want %q", c.Result, c.Status, got, c.Want)
		}
	}
}

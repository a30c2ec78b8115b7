package kubeletbin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// TestSlowBinary: a binary may take half of the time that the deadline of the run leaves, because its answer decides
// what is checked. One that answers later than it starts is waited for. One that never answers leaves the rest, and why
// its version is not known is an error.
func TestSlowBinary(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if got, want := limit(ctx), 30*time.Second; got != want {
			t.Errorf("limit with a minute left: got %s, want %s", got, want)
		}
	})
	for name, isReleased := range map[string]bool{"slow": true, "silent": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			file := filepath.Join(root, "opt/bin/kubelet")
			release := filepath.Join(root, "release")
			must(t, os.MkdirAll(filepath.Dir(file), 0o755))
			must(t, unix.Mkfifo(release, 0o600))
			writeProgram(t, file, "#!/bin/sh\nread -r go <"+release+"\necho Kubernetes v1.36.3\n")

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			started := make(chan error, 1)
			go func() {
				f, err := os.OpenFile(release, os.O_WRONLY, 0) // once the binary reads
				if err == nil && isReleased {
					_, err = f.WriteString("go\n")
				} else {
					cancel()
				}
				started <- err
			}()
			version, err := Find(root, "", nil).Version(ctx, true)
			must(t, <-started)
			if isReleased && (version != "v1.36.3" || err != nil) {
				t.Errorf("got %q, %v; want v1.36.3", version, err)
			}
			if !isReleased && (version != "" || err == nil || !strings.Contains(err.Error(), "no answer within")) {
				t.Errorf("got %q, %v; want that there was no answer", version, err)
			}
		})
	}
}

// TestOpenHangs: a program whose state is known, and which cannot be opened, is not started: that would have no bound. A
// lease of another process lets each open of a file wait, for 45 s by default.
func TestOpenHangs(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	file := filepath.Join(root, "opt/bin/kubelet")
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	writeProgram(t, file, "#!/bin/sh\necho Kubernetes v1.36.3\n")
	holder, err := os.OpenFile(file, os.O_RDWR, 0)
	must(t, err)
	defer holder.Close()
	if _, err := unix.FcntlInt(holder.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip("this file system has no leases:", err)
	}

	found, unread := find(root, "", "kubelet", nil)
	if found != nil || !errors.As(unread, new(*nodefile.NoAnswerError)) {
		t.Errorf("got %v, %v; want no program, and that its file system did not answer", found, unread)
	}
}

// TestStrangeVersion: what a binary prints is its version only if it looks like one, because it is printed, recorded and
// written to the Node.
func TestStrangeVersion(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	file := filepath.Join(root, "opt/bin/kubelet")
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))

	for printed, want := range map[string]string{
		"Kubernetes v1.36.3":                         "v1.36.3",
		"Kubernetes v1.30.4-eks-a737599":             "v1.30.4-eks-a737599",
		"Kubernetes v1.36.3+rke2r1":                  "v1.36.3+rke2r1",
		"Kubernetes v1.36.3\x1b[31mred":              "",
		"Kubernetes v1.36.3\nWarning: no such":       "",
		"Kubernetes vfoo":                            "",
		"Kubernetes v-1.99.0":                        "",
		"Kubernetes v1." + strings.Repeat("1", 1000): "",
	} {
		writeProgram(t, file, "#!/bin/sh\ncat <<'X'\n"+printed+"\nX\n")
		version, err := Find(root, "", nil).Version(t.Context(), true)
		if version != want || (err == nil) != (want != "") {
			t.Errorf("version of a kubelet that prints %q: got %q, %v; want %q", printed, version, err, want)
		}
	}
}

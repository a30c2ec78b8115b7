package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/world"
)

// A binary below another root, and that of a recorded machine, is never started: only what was remembered tells.
func TestKubeletOfAnotherRoot(t *testing.T) {
	root := t.TempDir()
	cache := filepath.Join(root, "cache.json")
	if _, err := KubeletAccepts(t.Context(), root, false, cache); err == nil || !strings.Contains(err.Error(), "no kubelet") {
		t.Errorf("without one: %v", err)
	}
	place(t, root, "/usr/bin/kubelet", "#!/bin/sh\ntouch "+filepath.Join(root, "started")+"\n")
	name := filepath.Join(root, "/usr/bin/kubelet")
	if err := os.Chmod(name, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := KubeletAccepts(t.Context(), root, false, cache); err == nil {
		t.Error("it was asked")
	}
	st, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	kept, ok := KubeletBinary(root, cache, time.Now().Add(time.Hour))
	if !ok {
		t.Fatal("there is none")
	}
	kept.Version, kept.Accepts, kept.SHA256 = "v1.36.3", &world.AcceptsAns{Flags: []string{"a"}}, "of the whole"
	b, err := json.Marshal(kept)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cache, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if a, err := KubeletAccepts(t.Context(), root, false, cache); err != nil || !slices.Equal(a.Flags, []string{"a"}) {
		t.Errorf("%+v, %v", a, err)
	}
	if v, ok := KubeletVersion(t.Context(), root, true, cache); !ok || v.Version != "v1.36.3" {
		t.Errorf("%+v, %v", v, ok)
	}
	if again, ok := KubeletBinary(root, cache, time.Now().Add(time.Hour)); !ok || again.SHA256 != kept.SHA256 {
		t.Errorf("the hash of the whole is lost: %+v", again)
	}
	// Another one of the same size, to which an image gives the time that it gives all its files.
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(name, bytes.ToUpper(text), 0o755), os.Chtimes(name, st.ModTime(), st.ModTime())); err != nil {
		t.Fatal(err)
	}
	if _, err := KubeletAccepts(t.Context(), root, false, cache); err == nil {
		t.Error("another binary of the same size and time has the answers of the first")
	}
	if other, ok := KubeletBinary(root, cache, time.Now().Add(time.Hour)); !ok || other.SHA256 != "" {
		t.Errorf("another binary has the hash of the first: %+v", other)
	}
	if err := errors.Join(os.WriteFile(name, text, 0o755), os.Chtimes(name, st.ModTime(), st.ModTime())); err != nil {
		t.Fatal(err)
	}
	if _, err := KubeletAccepts(t.Context(), root, false, cache); err != nil {
		t.Errorf("the first is back: %v", err)
	}
	if err := os.Chtimes(name, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := KubeletAccepts(t.Context(), root, false, cache); err == nil {
		t.Error("another binary has the answers of the first")
	}
	if _, err := os.Stat(filepath.Join(root, "started")); err == nil {
		t.Error("it was started")
	}
}

// What a program prints is bounded, and one that hangs is given up.
func TestRunBinary(t *testing.T) {
	p := filepath.Join(t.TempDir(), "kubelet")
	script := "#!/bin/sh\ncase $1 in\n--version) echo Kubernetes v1.2.3;;\n--flood) while echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; do :; done;;\n*) exit 3;;\nesac\n"
	if err := os.WriteFile(p, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := runBinary(t.Context(), p, "--version"); err != nil || out != "Kubernetes v1.2.3\n" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := runBinary(t.Context(), p, "--fail"); err == nil {
		t.Error("a program that fails")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := runBinary(ctx, p, "--flood"); err == nil {
		t.Error("a program that does not end")
	}
	l := limited{most: 5}
	for range 3 {
		if n, err := l.Write([]byte("abc")); n != 3 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if l.b.String() != "abcab" {
		t.Errorf("%q", l.b.String())
	}
}

func TestSurroundings(t *testing.T) {
	root := t.TempDir()
	place(t, root, "/v2/cgroup.controllers", "cpu\n")
	place(t, root, "/v1/memory/tasks", "1\n")
	for dir, want := range map[string]int{"/v2": 2, "/v1": 1, "/none": 0} {
		if got := cgroupVersion(filepath.Join(root, dir)); got != want {
			t.Errorf("%s: %d, want %d", dir, got, want)
		}
	}
	place(t, root, "/mounts", "tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0\ncgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,cpu,cpuacct 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"+
		"cgroup /sys/fs/cgroup/systemd cgroup rw,xattr,name=systemd 0 0\ncgroup /sys/fs/cgroup/freezer cgroup rw,freezer 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n")
	if got := hierarchies(filepath.Join(root, "mounts")); !slices.Equal(got, []string{"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/systemd"}) {
		t.Errorf("%q", got)
	}
	if got := hierarchies(filepath.Join(root, "none")); got != nil {
		t.Errorf("%q", got)
	}
	if got, whole := diskBytes(root), diskBytes(filepath.Join(root, "none/at/all")); got <= 0 || got != whole {
		t.Errorf("%d, and for what is not there %d", got, whole)
	}
	place(t, root, "/sys/kernel/panic", "10\n")
	place(t, root, "/sys/vm/panic_on_oom", "no number\n")
	if got := sysctls(filepath.Join(root, "sys")); len(got) != 1 || got["kernel/panic"] != 10 {
		t.Errorf("%v", got)
	}
	place(t, root, "/off", "Filename\tType\tSize\tUsed\tPriority\n")
	place(t, root, "/on", "Filename\tType\tSize\tUsed\tPriority\n/dev/sda2\tpartition\t1\t0\t-2\n")
	for file, want := range map[string]bool{"/off": false, "/on": true} {
		if got := swapOn(filepath.Join(root, file)); got == nil || *got != want {
			t.Errorf("%s: %v, want %t", file, got, want)
		}
	}
	if got := swapOn(filepath.Join(root, "/none")); got != nil {
		t.Errorf("got %v", *got)
	}
}

func TestExists(t *testing.T) {
	dir := t.TempDir()
	here := &Live{}
	for p, want := range map[string]string{dir: `{"exists":true}`, filepath.Join(dir, "none"): `{"exists":false}`} {
		if a := here.exists(p); a.Fail != "" || string(a.Value) != want {
			t.Errorf("%s: %+v", p, a)
		}
	}
	if a := (&Live{o: Options{Root: dir}}).exists("/etc"); a.Fail != world.Absent {
		t.Errorf("below another root: %+v", a)
	}
}

package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/app/doctor"
)

func TestExamineHost(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  doctor.Host
	}{
		{
			"fine",
			map[string]string{
				"proc/sys/net/ipv4/ip_forward": "1\n", "usr/bin/mount": "", "sbin/losetup": "",
				"sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory hugetlb pids rdma misc\n",
			},
			doctor.Host{},
		},
		{
			"without memory, forwarding and losetup",
			map[string]string{
				"proc/sys/net/ipv4/ip_forward": "0\n", "usr/bin/mount": "",
				"sys/fs/cgroup/cgroup.controllers": "cpuset cpu io pids\n",
			},
			doctor.Host{
				NoForward:          true,
				MissingControllers: []string{"memory"},
				MissingPrograms:    []string{"losetup"},
			},
		},
		{"nothing can be read", nil, doctor.Host{MissingPrograms: []string{"losetup", "mount"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			for path, text := range c.files {
				file := filepath.Join(root, path)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(c.want, examineHost(t.Context(), root, "")); diff != "" {
				t.Errorf("examineHost: -want +got:\n%s", diff)
			}
		})
	}

	name := "node-1.example.invalid"
	if got := examineHost(t.Context(), t.TempDir(), name); got.ResolveErr == nil || got.Hostname != name {
		t.Errorf("examineHost of %s: got %q and error %v, want the name and an error", name, got.Hostname, got.ResolveErr)
	}
}

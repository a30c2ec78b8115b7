package probe

import (
	"maps"
	"testing"

	"github.com/prelet/prelet/internal/model/tape"
)

// TestPackages finds the owners of files in dpkg's database, also with the paths from before a merge of /usr.
func TestPackages(t *testing.T) {
	root := t.TempDir()
	place(t, root, "/var/lib/dpkg/info/chrony.list", "/.\n/etc\n/etc/chrony\n/etc/chrony/chrony.conf\n")
	place(t, root, "/var/lib/dpkg/info/libc6:amd64.list", "/.\n/lib/x86_64-linux-gnu/libc.so.6\n")
	place(t, root, "/var/lib/dpkg/info/chrony.md5sums", "/etc/own\n")
	l := newLive(t, Sources{Root: root})

	req := tape.PackagesReq{Paths: []string{
		"/etc/chrony/chrony.conf", "/etc/chrony/chrony.confx", "/etc/own", "/usr/lib/x86_64-linux-gnu/libc.so.6",
	}}
	got, a, err := tape.Packages.Ask(t.Context(), l, req)
	want := map[string]string{"/etc/chrony/chrony.conf": "chrony", "/usr/lib/x86_64-linux-gnu/libc.so.6": "libc6:amd64"}
	if err != nil || !maps.Equal(got.Owners, want) {
		t.Errorf("owners: got %v, %+v; want %v", got.Owners, a, want)
	}

	without := newLive(t, Sources{Root: t.TempDir()})
	if _, a, err := tape.Packages.Ask(t.Context(), without, req); err == nil {
		t.Errorf("without dpkg: got %+v, want a failure", a)
	}
}

// TestAskRPM asks a program with rpm's interface: a file of a package, one of two packages, and one of none.
func TestAskRPM(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	placeMode(t, root, "/rpm", `#!/bin/sh
[ "$1 $2 $3" = "-qf --queryformat %{NAME}\n" ] || exit 2
case $4 in
/etc/chrony.conf) echo chrony ;;
/etc/shared) printf 'first\nsecond\n' ;;
*) echo "file $4 is not owned by any package"; exit 1 ;;
esac
`, 0o755)

	got := askRPM(t.Context(), root+"/rpm", []string{"/etc/chrony.conf", "/etc/own", "/etc/shared"})
	want := map[string]string{"/etc/chrony.conf": "chrony", "/etc/shared": "first"}
	if !maps.Equal(got, want) {
		t.Errorf("owners: got %v; want %v", got, want)
	}
}

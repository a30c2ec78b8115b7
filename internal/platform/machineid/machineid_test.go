package machineid

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a product uuid is compared by: byte order is the firmware's whim, and some boards have none.
func TestProductHash(t *testing.T) {
	one := hashProduct("4c4c4544-0042-3510-8054-b4c04f4d3332\n")
	if one == "" || one != hashProduct("44454C4C-4200-1035-8054-b4c04f4d3332") {
		t.Errorf("two spellings of one uuid: got %q and %q, want the same hash",
			one, hashProduct("44454C4C-4200-1035-8054-b4c04f4d3332"))
	}
	if one == hashProduct("4c4c4544-0042-3510-8054-b4c04f4d3333") || strings.Contains(one, "4c4c") {
		t.Errorf("got %q; want a hash that differs from that of another uuid, and not the uuid", one)
	}
	for _, none := range []string{"", "Not Settable", "00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "03000200-0400-0500-0006-000700080009", "4c4c4544"} {
		if got := hashProduct(none); got != "" {
			t.Errorf("%q: got an identity, want none", none)
		}
	}
}

// TestLinkOutOfARoot holds that an absolute link of an image stays in the image: the identity of the machine that
// builds it is not the image's.
func TestLinkOutOfARoot(t *testing.T) {
	root, host := t.TempDir(), filepath.Join(t.TempDir(), "machine-id")
	for path, text := range map[string]string{host: "11111111111111111111111111111111\n", filepath.Join(root, "data/id"): "2222\n"} {
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	must(t, os.Mkdir(filepath.Join(root, "etc"), 0o755))
	for to, want := range map[string]string{host: "", "/data/id": hashID("2222")} {
		_ = os.Remove(filepath.Join(root, "etc/machine-id"))
		must(t, os.Symlink(to, filepath.Join(root, "etc/machine-id")))
		if got := Of(root).ID; got != want {
			t.Errorf("a link to %s: got %q, want %q", to, got, want)
		}
	}
}

// The containers of a host have its product uuid, so it is not a mark of any of them.
func TestProductOfAContainer(t *testing.T) {
	root := t.TempDir()
	place := func(path, text string) {
		t.Helper()
		file := filepath.Join(root, path)
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte(text), 0o644))
	}
	place("/sys/class/dmi/id/product_uuid", "4c4c4544-0042-3510-8054-b4c04f4d3332\n")
	if Of(root).Product == "" {
		t.Error("a machine with a product uuid: got none")
	}
	place("/run/systemd/container", "systemd-nspawn")
	if got := Of(root).Product; got != "" {
		t.Errorf("a container: got the product uuid %q, want none", got)
	}
}

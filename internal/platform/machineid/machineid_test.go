package machineid

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/osfile"
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
	host := filepath.Join(t.TempDir(), "machine-id")
	osfile.Write(t, host, "11111111111111111111111111111111\n", 0o644)
	for to, want := range map[string]string{host: "", "/data/id": hashID("2222")} {
		root := t.TempDir()
		osfile.WriteTree(t, root, map[string]string{"data/id": "2222\n", "etc/machine-id": "-> " + to})
		if got := Of(root).ID; got != want {
			t.Errorf("a link to %s: got %q, want %q", to, got, want)
		}
	}
}

// The containers of a host have its product uuid, so it is not a mark of any of them.
func TestProductOfAContainer(t *testing.T) {
	root := t.TempDir()
	osfile.WriteTree(t, root, map[string]string{"sys/class/dmi/id/product_uuid": "4c4c4544-0042-3510-8054-b4c04f4d3332\n"})
	if Of(root).Product == "" {
		t.Error("a machine with a product uuid: got none")
	}
	osfile.WriteTree(t, root, map[string]string{"run/systemd/container": "systemd-nspawn"})
	if got := Of(root).Product; got != "" {
		t.Errorf("a container: got the product uuid %q, want none", got)
	}
}

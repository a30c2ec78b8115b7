// Package machineid identifies the machine that made a recording or a generation, by hashes of its machine id and its
// product uuid. Of reads these two files of a machine, and Foreign compares them with the plan that a generation
// keeps. The package must not return an id itself, because recordings and generations are shared.
package machineid

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// Machine identifies a machine by hashes. An empty hash is unknown.
type Machine struct {
	ID      string `json:"machine,omitempty"` // of /etc/machine-id
	Product string `json:"product,omitempty"` // of the DMI product uuid
}

// Of returns the machine below a root; "" is this machine.
func Of(root string) Machine {
	return OfNode(read(root, "/etc/machine-id"), read(root, "/sys/class/dmi/id/product_uuid"))
}

// OfNode returns the machine of a Node object, from the nodeInfo that its kubelet reports.
func OfNode(machineID, systemUUID string) Machine {
	return Machine{ID: hashID(strings.TrimSpace(machineID)), Product: hashProduct(systemUUID)}
}

// maxFile is the size in bytes of the largest file that is read.
const maxFile = 4096

// read returns the text of a file below a root, or "". A link stays below the root: an image must not get the
// identity of the machine that builds it.
func read(root, path string) string {
	look, err := nodefile.Root(root).Look(path, nodefile.FollowAll)
	if err != nil {
		return ""
	}
	defer look.Close()
	b, err := look.Read(maxFile)
	if err != nil {
		return ""
	}

	return string(b)
}

// Generations reads the files that generations keep. The error of a file that a generation does not have is
// fs.ErrNotExist; a damaged or missing generation has another error.
type Generations interface {
	Blob(gen int, name string) ([]byte, error)
}

// Foreign returns how a generation shows that it was made on another machine; "" if it does not.
func Foreign(s Generations, gen int, here Machine) string {
	was, gen := findMachine(s, gen)
	differs := func(a, b string) bool { return a != "" && b != "" && a != b }
	switch {
	case differs(was.ID, here.ID):
		return fmt.Sprintf("the machine id is not the one of generation %d", gen)
	case differs(was.Product, here.Product):
		return fmt.Sprintf("the product uuid is not the one of generation %d", gen)
	}

	return ""
}

// findMachine returns the machine that made a generation. A generation that restored the state before prelet has no
// plan; then the one before it counts. For a generation that cannot be read the machine is unknown: an older one may
// come from the machine that this disk is a copy of.
func findMachine(s Generations, gen int) (Machine, int) {
	const maxBack = 100
	for n := gen; n > 0 && n > gen-maxBack; n-- {
		b, err := s.Blob(n, "plan.json")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}

		var was Machine
		if err != nil || json.Unmarshal(b, &was) != nil {
			break
		}

		return was, n
	}

	return Machine{}, gen
}

// PlannedNode returns the name of the node that a generation was made for, "" if it is not known.
func PlannedNode(s Generations, gen int) string {
	_, gen = findMachine(s, gen)
	b, err := s.Blob(gen, "activation.json")
	if err != nil {
		return ""
	}

	var plan struct {
		Node string `json:"node"`
	}
	if json.Unmarshal(b, &plan) != nil {
		return ""
	}

	return plan.Node
}

// IsOther reports whether two are certainly different machines: at least one hash is known of both, and no known hash
// is the same. A machine that was installed again has another id and the same product uuid.
func (m Machine) IsOther(n Machine) bool {
	differs, same := false, false
	pairs := [][2]string{
		{m.ID, n.ID},
		{m.Product, n.Product},
	}
	for _, p := range pairs {
		if p[0] == "" || p[1] == "" {
			continue
		}
		differs = differs || p[0] != p[1]
		same = same || p[0] == p[1]
	}

	return differs && !same
}

// hashProduct returns the hash of a product uuid, "" for a uuid that many machines have. Firmware and kernels disagree
// on the byte order of its first three groups, so the hash is that of the smaller spelling (SMBIOS 2.6, 7.2.1).
func hashProduct(uuid string) string {
	u := strings.ToLower(strings.TrimSpace(uuid))
	g := strings.Split(u, "-")
	if len(u) != 36 || len(g) != 5 || strings.Trim(u, "0123456789abcdef-") != "" {
		return ""
	}

	digits := strings.Join(g, "")
	isOneDigit := strings.Trim(digits, digits[:1]) == ""
	if isOneDigit || slices.Contains(placeholderUUIDs(), u) {
		return ""
	}

	for i := range 3 {
		g[i] = swapBytes(g[i])
	}
	swapped := strings.Join(g, "-")

	return hash("prelet product uuid\n" + min(u, swapped))
}

// placeholderUUIDs returns the uuids of boards whose vendor never set one.
func placeholderUUIDs() []string {
	return []string{
		"03000200-0400-0500-0006-000700080009",
		"00020003-0004-0005-0006-000700080009",
		"12345678-1234-5678-90ab-cddeefaabbcc",
		"00112233-4455-6677-8899-aabbccddeeff",
	}
}

// swapBytes returns hexadecimal bytes in the opposite order.
func swapBytes(hex string) string {
	out := ""
	for i := len(hex); i >= 2; i -= 2 {
		out += hex[i-2 : i]
	}

	return out
}

// hashID returns the hash of a machine id.
func hashID(id string) string {
	if id == "" || id == "uninitialized" { // the latter in an image that was never booted
		return ""
	}

	return hash("prelet machine id\n" + id)
}

func hash(text string) string {
	h := sha256.Sum256([]byte(text))

	return "sha256:" + hex.EncodeToString(h[:])
}

// Package machineid says on which machine something was made, by hashes of its machine id and its product uuid. It
// reads these two files of the machine, and the plan that a generation keeps.
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

// Machine says on which machine something was made: hashes, because recordings and generations are read by others. ""
// is unknown.
type Machine struct {
	ID      string `json:"machine,omitempty"` // of /etc/machine-id
	Product string `json:"product,omitempty"` // of the DMI product uuid
}

// Of is the machine below a root; "" is the one that runs us.
func Of(root string) Machine {
	m := Machine{ID: hashedID(root)}
	if text, ok := read(root, "/sys/class/dmi/id/product_uuid"); ok {
		m.Product = productHash(text)
	}
	return m
}

// longest is the size in bytes of the longest file that is read.
const longest = 4096

// read returns the text of a file below a root. A link on the way stays below the root: that of an image must not lead to
// the identity of the machine that builds it.
func read(root, path string) (text string, ok bool) {
	look, err := nodefile.Root(root).Look(path, nodefile.FollowAll)
	if err != nil {
		return "", false
	}
	defer look.Close()
	b, err := look.Read(longest)
	return string(b), err == nil
}

// Generations are what is read of a store: a file that a generation keeps. The error of one that it does not keep is
// fs.ErrNotExist; of a generation that is lost it is another one.
type Generations interface {
	Blob(gen int, name string) ([]byte, error)
}

// Foreign says in which way a generation was made on another machine than the one here; "" where nothing says so.
func Foreign(s Generations, gen int, here Machine) string {
	was, gen := madeOn(s, gen)
	differs := func(a, b string) bool { return a != "" && b != "" && a != b }
	switch {
	case differs(was.ID, here.ID):
		return fmt.Sprintf("the machine id is not the one of generation %d", gen)
	case differs(was.Product, here.Product):
		return fmt.Sprintf("the product uuid is not the one of generation %d", gen)
	}
	return ""
}

// madeOn is the machine that a generation was made on. One that is as before prelet has no plan: then the one before it
// tells. One that cannot be read, or is lost, says nothing: what is older may be of the machine that this disk is a copy
// of.
func madeOn(s Generations, gen int) (Machine, int) {
	const back = 100
	for n := gen; n > 0 && n > gen-back; n-- {
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

// PlannedNode is the name of the node that a generation was made for, "" where that is not known.
func PlannedNode(s Generations, gen int) string {
	_, gen = madeOn(s, gen)
	var plan struct {
		Node string `json:"node"`
	}
	if b, err := s.Blob(gen, "activation.json"); err != nil || json.Unmarshal(b, &plan) != nil {
		return ""
	}

	return plan.Node
}

// OfNode is the machine that a Node object says, by what its kubelet reports in nodeInfo.
func OfNode(machineID, systemUUID string) Machine {
	return Machine{ID: hashID(strings.TrimSpace(machineID)), Product: productHash(systemUUID)}
}

// IsOther reports whether two are certainly not one machine: something of both is known, and nothing of it is the same.
// A machine that was installed anew has another id and the same product uuid.
func (m Machine) IsOther(n Machine) bool {
	differs, same := false, false
	for _, p := range [][2]string{{m.ID, n.ID}, {m.Product, n.Product}} {
		if p[0] != "" && p[1] != "" {
			differs, same = differs || p[0] != p[1], same || p[0] == p[1]
		}
	}

	return differs && !same
}

// productHash is a product uuid as generations carry it, "" for one that many machines have. Firmware and kernels
// disagree on the byte order of its first three groups: the smaller of the two spellings counts (SMBIOS 2.6, 7.2.1).
func productHash(uuid string) string {
	u := strings.ToLower(strings.TrimSpace(uuid))
	g := strings.Split(u, "-")
	if len(u) != 36 || len(g) != 5 || strings.Trim(u, "0123456789abcdef-") != "" {
		return ""
	}
	digits := strings.Join(g, "")
	if strings.Trim(digits, digits[:1]) == "" || slices.Contains(placeholderUUIDs(), u) {
		return ""
	}
	turned := strings.Join([]string{turn(g[0]), turn(g[1]), turn(g[2]), g[3], g[4]}, "-")
	return hashOf("prelet product uuid\n" + min(u, turned))
}

// placeholderUUIDs are what boards say whose vendor never set one.
func placeholderUUIDs() []string {
	return []string{"03000200-0400-0500-0006-000700080009", "00020003-0004-0005-0006-000700080009", "12345678-1234-5678-90ab-cddeefaabbcc", "00112233-4455-6677-8899-aabbccddeeff"}
}

// turn writes hexadecimal bytes in the other order.
func turn(hex string) string {
	out := ""
	for i := len(hex); i >= 2; i -= 2 {
		out += hex[i-2 : i]
	}
	return out
}

// hashedID is the hashed machine id below a root.
func hashedID(root string) string {
	text, _ := read(root, "/etc/machine-id")
	return hashID(strings.TrimSpace(text))
}

// hashID is a machine id as recordings carry it.
func hashID(id string) string {
	if id == "" || id == "uninitialized" { // the latter in an image that was never booted
		return ""
	}
	return hashOf("prelet machine id\n" + id)
}

func hashOf(text string) string {
	h := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(h[:])
}

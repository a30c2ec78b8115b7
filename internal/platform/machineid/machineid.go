// Package machineid identifies the machine that made a recording or a generation, by hashes of its machine id, its
// product uuid and its host name: its marks. Of reads them of a machine, and Compare compares them with the plan that a
// generation keeps. The package must not return an id itself, because recordings and generations are shared.
package machineid

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// Hashes identify a machine. An empty hash is unknown.
type Hashes struct {
	ID      string `json:"machine,omitempty"` // of /etc/machine-id
	Product string `json:"product,omitempty"` // of the DMI product uuid
	Host    string `json:"host,omitempty"`    // of the host name; not of a Node, and not of older generations
}

// Of returns the machine below a root; "" is this machine.
func Of(root string) Hashes {
	id := ""
	if !IsTransient(root) {
		id = read(root, "/etc/machine-id")
	}
	uuid := ""
	if !isContainer(root) {
		uuid = read(root, "/sys/class/dmi/id/product_uuid")
	}
	m := OfNode(id, uuid)
	m.Host = hashHost(HostName(root))

	return m
}

// IsTransient reports whether /etc/machine-id is only of this boot: systemd has bound /run/machine-id over it, because
// it could not write the file (machine-id(5)).
func IsTransient(root string) bool {
	id, err := nodefile.Stat(filepath.Join("/", root, "etc/machine-id"))
	if err != nil {
		return false
	}
	transient, err := nodefile.Stat(filepath.Join("/", root, "run/machine-id"))

	return err == nil && os.SameFile(id, transient)
}

// isContainer reports whether the machine is a container, according to its systemd. The product uuid there is the
// host's, so all containers of a host have it.
func isContainer(root string) bool {
	_, err := nodefile.Stat(filepath.Join("/", root, "run/systemd/container"))

	return err == nil
}

// HostName returns the host name, below a root that of /etc/hostname. It returns "" for a name that does not identify a
// machine.
func HostName(root string) string {
	name := ""
	if root == "" {
		name, _ = os.Hostname()
	} else {
		name = read(root, "/etc/hostname")
	}

	name = strings.ToLower(strings.TrimSpace(name))
	if name == "localhost" || strings.HasPrefix(name, "localhost.") || name == "(none)" {
		return ""
	}

	return name
}

// OfNode returns the machine of a Node object, from the nodeInfo that its kubelet reports.
func OfNode(machineID, systemUUID string) Hashes {
	return Hashes{ID: hashID(strings.TrimSpace(machineID)), Product: hashProduct(systemUUID)}
}

// maxFile is the size in bytes of the largest file that is read.
const maxFile = 4096

// read returns the text of a file below a root, or "". A link stays below the root: an image must not get the
// identity of the machine that builds it.
func read(root, path string) string {
	b, _ := nodefile.Root(root).ReadFile(path, maxFile) // nil with an error

	return string(b)
}

// Generations reads the files that generations keep. The error of a file that a generation does not have is
// fs.ErrNotExist; a damaged or missing generation has another error.
type Generations interface {
	Blob(gen int, name string) ([]byte, error)
	StateFile(name string) ([]byte, error) // next to the generations
}

// Comparison is how the machine of a generation and the one here compare.
type Comparison struct {
	Verdict
	// Differing is which marks differ; "" for none, and for a host that was only renamed.
	Differing string
	// Here is the machine here, with the marks of the generation's machine that are unknown here. IsNews is set if it
	// differs from the generation's.
	Here   Hashes
	IsNews bool
}

// Foreign returns which marks show that the generation is another machine's; "" if they do not.
func (v Comparison) Foreign() string {
	if v.Verdict == AnotherMachine {
		return v.Differing
	}

	return ""
}

// Certified returns the node in the certificate of kubelet.conf, "" if there is none, and whether it is older than this
// machine's id.
type Certified func() (node string, isOld bool)

// Compare compares the machine that made a generation with the one here. A person's decision about the generations so
// far (Accepted) counts. certified is called only if a mark differs, so that most boots do not read the certificate
// again; nil: it is not known. The certificate of another node than the generation planned counts only if it is as old:
// a copy that has joined has its own.
func Compare(s Generations, gen int, here Hashes, certified Certified) Comparison {
	was, made := findMachine(s, gen)
	accepted := readAccepted(s)
	if accepted.Generation >= made {
		newest := was
		if accepted.Generation > made {
			newest, _ = findMachine(s, accepted.Generation)
		}
		if was.compare(newest).Judge() == ThisMachine {
			was = accepted.Hashes
		}
	}

	// Older generations of a machine have the name of the node instead, which mostly is the host's. One of an image,
	// which has no product uuid, is of any host.
	if was.Host == "" && was.Product != "" {
		was.Host = hashHost(strings.ToLower(PlannedNode(s, made)))
	}

	marks := was.compare(here)
	if _, differ := marks.count(); differ > 0 && certified != nil {
		node, isOld := certified()
		if isOld || node == PlannedNode(s, made) {
			marks.Node = compareMark(hashHost(strings.ToLower(node)), here.Host)
		}
	}

	v := Comparison{
		Verdict: marks.Judge(),
		Here: Hashes{
			ID:      cmp.Or(here.ID, was.ID),
			Product: cmp.Or(here.Product, was.Product),
			Host:    cmp.Or(here.Host, was.Host),
		},
	}
	v.IsNews = v.Here != was
	isRenamed := v.Verdict == ThisMachine && marks.ID != Differs && marks.Product != Differs
	if !isRenamed {
		v.Differing = marks.describeDiffering(made)
	}

	return v
}

// IsAccepted reports whether a person said, before the first generation, that the identity on this disk is of the
// machine here.
func IsAccepted(s Generations, here Hashes) bool {
	a := readAccepted(s)
	marks := a.compare(here)
	agree, _ := marks.count()

	return a.Generation == 0 && agree > 0 && marks.Judge() == ThisMachine
}

// compare returns how the marks of two machines compare.
func (m Hashes) compare(n Hashes) Marks {
	return Marks{
		ID:      compareMark(m.ID, n.ID),
		Product: compareMark(m.Product, n.Product),
		Host:    compareMark(m.Host, n.Host),
	}
}

// IsForeign reports whether it is not known that two machines are the same.
func (m Hashes) IsForeign(n Hashes) bool {
	return m.compare(n).Judge() != ThisMachine
}

// Accepted is the machine that the generations so far belong to: named by a person, or kept as one of its marks
// changed. It is in AcceptedFile next to them.
type Accepted struct {
	FormatVersion int `json:"format_version"`
	Generation    int `json:"generation"` // the newest of those
	Hashes
}

// HowToKeep is the way of a person to say that an identity or a generation is of this machine.
const HowToKeep = "if it is this machine: prelet run --this-machine"

// SealHere are the commands that remove the original's identity from a running machine whose disk is a copy. For a
// machine below a root only prelet seal is used, with that root.
const SealHere = "systemctl stop kubelet && prelet seal --yes --root / && reboot"

// AcceptedFile is the name of the file with an Accepted, in the folder of the generations.
const AcceptedFile = "machine.json"

// readAccepted returns the accepted machine; a zero value without one, and for a damaged file or a newer version's.
func readAccepted(s Generations) (a Accepted) {
	text, err := s.StateFile(AcceptedFile)
	if err != nil || json.Unmarshal(text, &a) != nil || a.FormatVersion != 1 {
		return Accepted{}
	}

	return a
}

// findMachine returns the machine that made a generation. A generation that restored the state before prelet has no
// plan; then the one before it counts. For a generation that cannot be read the machine is unknown: an older one may
// come from the machine that this disk is a copy of.
func findMachine(s Generations, gen int) (Hashes, int) {
	const maxBack = 100
	for n := gen; n > 0 && n > gen-maxBack; n-- {
		b, err := s.Blob(n, "plan.json")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}

		var was Hashes
		if err != nil || json.Unmarshal(b, &was) != nil {
			break
		}

		return was, n
	}

	return Hashes{}, gen
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
func (m Hashes) IsOther(n Hashes) bool {
	agree, differ := m.compare(n).count()

	return differ > 0 && agree == 0
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

// hashID returns the hash of a machine id; "" for a text that systemd does not accept either (machine-id(5)), such as
// "uninitialized" in an image that was never booted.
func hashID(id string) string {
	b, err := hex.DecodeString(id)
	isAnID := err == nil && len(b) == 16 && slices.Max(b) > 0
	if !isAnID {
		return ""
	}

	return hash("prelet machine id\n" + id)
}

func hashHost(name string) string {
	if name == "" {
		return ""
	}

	return hash("prelet host name\n" + name)
}

func hash(text string) string {
	h := sha256.Sum256([]byte(text))

	return "sha256:" + hex.EncodeToString(h[:])
}

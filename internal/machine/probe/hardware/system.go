package hardware

import (
	"cmp"
	"strings"

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/tape"
)

// readSystem reads kernel, distribution and machine id, and the huge pages that are asked for.
func (d *detection) readSystem() error {
	const releaseFile, idFile = "proc/sys/kernel/osrelease", "etc/machine-id"

	d.facts.Kernel.Release = d.readNonEmpty("kernel.release", releaseFile)
	d.readMachineCheck()
	d.readHugePagesAsked()
	d.readOSRelease()

	id := d.readNonEmpty("machine_id", idFile)

	switch {
	case id == nil:
	case !isMachineID(*id):
		delete(d.evidence, "machine_id")
		d.note("machine_id", "/etc/machine-id does not contain 32 hexadecimal digits "+
			"(an image before its first boot says \"uninitialized\")")
	default:
		d.facts.MachineID = id
	}

	return nil
}

// readNonEmpty returns the text of a file, nil with the reason in Unknown if it is empty or cannot be read.
func (d *detection) readNonEmpty(fact, file string) *string {
	text, err := d.readText(file)

	switch {
	case err != nil:
		d.noteError(fact, err)
		return nil
	case text == "":
		d.note(fact, "/"+file+" is empty")
		return nil
	}

	d.setSource(fact, file)

	return &text
}

func (d *detection) readOSRelease() {
	const limit = 16 << 10

	file := "etc/os-release"

	data, err := d.ReadFile(file, limit)
	if isAbsent(err) {
		file = "usr/lib/os-release"
		data, err = d.ReadFile(file, limit)
	}

	var release *kubelet.EnvFile
	if err == nil {
		release, err = parseOSRelease(string(data))
	}

	if err != nil {
		for _, fact := range []string{"os.id", "os.id_like", "os.version_id", "os.name"} {
			d.noteError(fact, err)
		}

		return
	}

	d.facts.OS = newOS(release)
	d.setSource("os", file)

	if d.facts.OS.VersionID == nil {
		d.note("os.version_id", "os-release has no VERSION_ID") // a rolling release
	}
}

func isMachineID(s string) bool {
	isHexadecimal := strings.Trim(s, "0123456789abcdef") == ""
	isZero := strings.Trim(s, "0") == ""

	return len(s) == 32 && isHexadecimal && !isZero
}

// newOS applies the defaults of os-release(5).
func newOS(release *kubelet.EnvFile) tape.OS {
	id, _ := release.Value("ID")
	name, _ := release.Value("PRETTY_NAME")
	version, _ := release.Value("VERSION_ID")
	like, _ := release.Value("ID_LIKE")

	id = cmp.Or(id, "linux")
	name = cmp.Or(name, "Linux")

	out := tape.OS{
		ID:     &id,
		Name:   &name,
		IDLike: append([]string{}, strings.Fields(like)...),
	}
	if version != "" {
		out.VersionID = &version
	}

	return out
}

// parseOSRelease parses os-release, which systemd reads with its parser of environment files. A name in another
// encoding must not hide the other facts.
func parseOSRelease(text string) (*kubelet.EnvFile, error) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.NewReplacer("\x00", "", "\ufeff", "").Replace(text)

	return kubelet.ParseEnvFile(text)
}

package hardware

import (
	"strings"

	"github.com/prelet/prelet/internal/world"
)

// readSystem reads kernel, distribution and machine id.
func (d *detection) readSystem() error {
	release, err := d.text("proc/sys/kernel/osrelease")
	if err != nil || release == "" {
		d.orEmpty("kernel.release", "proc/sys/kernel/osrelease", err)
	} else {
		d.facts.Kernel.Release = &release
		d.saw("kernel.release", "proc/sys/kernel/osrelease")
	}

	const limit = 16 << 10
	file := "etc/os-release"
	data, err := d.ReadFile(file, limit)
	if absent(err) {
		file = "usr/lib/os-release"
		data, err = d.ReadFile(file, limit)
	}
	if err != nil {
		for _, fact := range []string{"os.id", "os.id_like", "os.version_id", "os.name"} {
			d.failed(fact, err)
		}
	} else {
		d.facts.OS = operatingSystem(parseOSRelease(string(data)))
		d.saw("os", file)
		if d.facts.OS.VersionID == nil {
			d.note("os.version_id", "os-release has no VERSION_ID") // a rolling release
		}
	}

	id, err := d.text("etc/machine-id")
	switch {
	case err != nil || id == "":
		d.orEmpty("machine_id", "etc/machine-id", err)
	case !isMachineID(id):
		d.note("machine_id", "/etc/machine-id holds no 32 hexadecimal digits (an image before its first boot says \"uninitialized\")")
	default:
		d.facts.MachineID = &id
		d.saw("machine_id", "etc/machine-id")
	}
	return nil
}

func (d *detection) orEmpty(fact, name string, err error) {
	if err != nil {
		d.failed(fact, err)
		return
	}
	d.note(fact, "/"+name+" is empty")
}

func isMachineID(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == "" && strings.Trim(s, "0") != ""
}

// operatingSystem fills in the defaults that os-release(5) gives.
func operatingSystem(values map[string]string) world.OS {
	get := func(key, absent string) *string {
		if v := values[key]; v != "" {
			return &v
		}
		if absent == "" {
			return nil
		}
		return &absent
	}
	like := strings.Fields(values["ID_LIKE"])
	if like == nil {
		like = []string{}
	}
	return world.OS{ID: get("ID", "linux"), IDLike: like, VersionID: get("VERSION_ID", ""), Name: get("PRETTY_NAME", "Linux")}
}

// parseOSRelease reads assignments as os-release(5) allows them: of a shell, without expansion or concatenation.
func parseOSRelease(s string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(line)
		key, value, ok := strings.Cut(line, "=")
		if !ok || key == "" || strings.HasPrefix(line, "#") {
			continue
		}
		values[key] = unquote(value)
	}
	return values
}

// unquote takes a shell's quotes away. In double quotes a backslash escapes $ " \ and `, in single quotes nothing does.
func unquote(s string) string {
	if len(s) >= 2 && s[0] == '\'' && s[len(s)-1] == '\'' {
		return s[1 : len(s)-1]
	}
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return s
	}
	var b strings.Builder
	inner := s[1 : len(s)-1]
	for i := 0; i < len(inner); i++ {
		if inner[i] == '\\' && i+1 < len(inner) && strings.IndexByte("$\"\\`", inner[i+1]) >= 0 {
			i++
		}
		b.WriteByte(inner[i])
	}
	return b.String()
}

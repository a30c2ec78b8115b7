package node

import (
	"path"
	"strings"
)

// writable are the folders that prelet's units may write. Source: ReadWritePaths= in packaging/systemd; ProtectSystem=strict
// takes the others, /run too.
var writable = []string{"/etc", "/var/lib/kubelet", "/var/lib/prelet"}

// IsWritable reports whether prelet's units may write a path: as they are packaged, or where more says so.
func IsWritable(file string, more []string) bool {
	for _, folders := range [][]string{writable, more} {
		for _, f := range folders {
			f = path.Clean("/" + strings.TrimLeft(f, "-+"))
			if f == file || f == "/" || strings.HasPrefix(file, f+"/") {
				return true
			}
		}
	}

	return false
}

// WhyReadOnly returns why prelet's units may not write a path, and what helps.
func WhyReadOnly(file string) string {
	folder := path.Dir(file)
	if folder == "/" {
		folder = file
	}

	return "Its units may write below " + strings.Join(writable[:2], " and ") + " only. Choose such a place, or ship a drop-in for prelet.service, " +
		"prelet-apply.service and prelet-verify.service with ReadWritePaths=-" + folder + "."
}

package desired

import (
	"path"
	"slices"
	"strings"
)

// writableFolders are the folders that prelet's units may write.
// Source: ReadWritePaths= in packaging/systemd. ProtectSystem=strict denies all others, /run too.
var writableFolders = []string{"/etc", "/var/lib/kubelet", "/var/lib/prelet"}

// IsWritable reports whether prelet's units may write a path. more are the ReadWritePaths= of drop-ins.
func IsWritable(file string, more []string) bool {
	for _, folders := range [][]string{writableFolders, more} {
		for _, folder := range folders {
			folder = path.Clean("/" + strings.TrimLeft(folder, "-+"))
			if folder == file || folder == "/" || strings.HasPrefix(file, folder+"/") {
				return true
			}
		}
	}

	return false
}

// WhyReadOnly explains why prelet's units may not write a path, and what to change.
func WhyReadOnly(file string) string {
	folder := path.Dir(file)
	if folder == "/" {
		folder = file
	}

	return "Its units may write below " + strings.Join(writableFolders[:2], " and ") +
		" only. Choose such a place, or ship a drop-in for prelet.service, " +
		"prelet-apply.service and prelet-verify.service with ReadWritePaths=-" + folder + "."
}

// hiddenFolders are the folders of which prelet's units see an empty one of their own.
// Source: ProtectHome=, PrivateDevices= and TemporaryFileSystem= in packaging/systemd.
var hiddenFolders = []string{"/dev", "/home", "/root", "/run/user", "/tmp", "/var/tmp"}

// IsHidden reports whether prelet's units do not see what others see at a path.
func IsHidden(file string) bool {
	return slices.ContainsFunc(hiddenFolders, func(folder string) bool {
		return strings.HasPrefix(path.Clean(file), folder+"/")
	})
}

// WhyHidden explains why prelet's units do not see a file, and what to change.
func WhyHidden(file string) string {
	folder := path.Clean(file)
	for path.Dir(folder) != "/" && IsHidden(path.Dir(folder)) {
		folder = path.Dir(folder)
	}

	return "Its units have a " + path.Dir(folder) + " of their own: a boot finds no such file, while a plan by hand " +
		"may find it. Choose a file elsewhere, such as in /etc or /run."
}

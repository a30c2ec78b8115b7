package nodefile

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// neededCapability returns the capability without which the kernel does not let a process set an extended attribute
// (xattr(7), security/commoncap.c, security/smack/smack_lsm.c); "" for none.
func neededCapability(attribute string) (name string, number int) {
	switch {
	case attribute == "security.capability":
		return "CAP_SETFCAP", unix.CAP_SETFCAP
	case strings.HasPrefix(attribute, "security.SMACK64"):
		return "CAP_MAC_ADMIN", unix.CAP_MAC_ADMIN
	case strings.HasPrefix(attribute, "trusted."):
		return "CAP_SYS_ADMIN", unix.CAP_SYS_ADMIN
	}

	return "", 0
}

// MissingCapability returns the capability that this process lacks to set an extended attribute; "" for none.
func MissingCapability(attribute string) string {
	name, number := neededCapability(attribute)
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if name == "" || unix.Capget(&header, &sets[0]) != nil {
		return ""
	}
	if sets[number/32].Effective&(1<<(number%32)) != 0 {
		return ""
	}

	return name
}

// HowKept returns whether prelet keeps an extended attribute of a file that it replaces. A process without
// CAP_SYS_ADMIN, such as prelet's units, does not see trusted attributes, so they are lost. Others that need a
// capability prevent the change.
func HowKept(attribute string) (isLost bool, capability string) {
	capability, number := neededCapability(attribute)
	isSignature := IsSignature(attribute)

	return isSignature || capability != "" && number == unix.CAP_SYS_ADMIN, capability
}

// IsSignature reports whether an extended attribute is a signature of IMA or EVM, which a change of the content
// invalidates.
func IsSignature(attribute string) bool {
	return attribute == "security.ima" || attribute == "security.evm"
}

// MaxAttribute is the kernel's limit: bytes of the names of all extended attributes of a file, or of one value.
const MaxAttribute = 64 << 10

// listAttributes reads the extended attributes of an open file.
func listAttributes(fd int) (map[string][]byte, error) {
	buf := make([]byte, MaxAttribute)
	n, err := unix.Flistxattr(fd, buf)
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) {
		return nil, nil
	}
	if err != nil || n == 0 {
		return nil, err
	}

	attributes := map[string][]byte{}
	for name := range strings.SplitSeq(strings.TrimRight(string(buf[:n]), "\x00"), "\x00") {
		if v, ok := ReadAttribute(fd, name); ok {
			attributes[name] = v
		}
	}

	return attributes, nil
}

// ReadAttribute returns an extended attribute of an open file. ok is false if the file does not have it.
func ReadAttribute(fd int, name string) (value []byte, ok bool) {
	buf := make([]byte, MaxAttribute)
	n, err := unix.Fgetxattr(fd, name, buf)
	if err != nil {
		return nil, false
	}

	return slices.Clone(buf[:n]), true
}

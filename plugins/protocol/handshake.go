package protocol

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	plugin "github.com/hashicorp/go-plugin"
)

// Fields of the line that a detector prints before anything else, separated by |.
const (
	coreField = iota
	versionField
	networkField
	addressField
	protocolField
	certificateField
)

// ParseHandshake checks the line that a detector prints before anything else and returns the path of its socket,
// which must be in the folder that the detector was given. It checks what go-plugin would not, or would not explain.
func ParseHandshake(line, folder string) (socket string, err error) {
	f := strings.Split(line, "|")
	if len(f) <= protocolField {
		return "", fmt.Errorf("its first line is not a handshake: %q", Truncate(line, 100))
	}

	switch {
	case f[coreField] != strconv.Itoa(plugin.CoreProtocolVersion):
		return "", fmt.Errorf("it speaks version %q of go-plugin's protocol, and prelet %d",
			Truncate(f[coreField], 20), plugin.CoreProtocolVersion)
	case f[versionField] != strconv.Itoa(Version):
		return "", fmt.Errorf("it speaks version %q of the detector protocol, and prelet %d",
			Truncate(f[versionField], 20), Version)
	case f[protocolField] != string(plugin.ProtocolGRPC):
		return "", fmt.Errorf("it speaks %q, and prelet gRPC", Truncate(f[protocolField], 20))
	case f[networkField] != "unix":
		return "", fmt.Errorf("it listens on %s %q, and must listen on a Unix socket in $%s",
			Truncate(f[networkField], 20), Truncate(f[addressField], 100), plugin.EnvUnixSocketDir)
	case len(f) > certificateField && f[certificateField] != "":
		return "", errors.New("it wants TLS, on a socket that only prelet can reach")
	}

	socket = f[addressField]
	name, ok := strings.CutPrefix(socket, strings.TrimSuffix(folder, "/")+"/")
	if !ok || strings.Contains(name, "..") || name == "" {
		return "", fmt.Errorf("it names the socket %q, which is not in the folder that it was given",
			Truncate(socket, 100))
	}

	return socket, nil
}

// Truncate returns s, or of a longer one at most n bytes and an ellipsis, without breaking a character.
func Truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}

	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}

	return s[:n] + "…"
}

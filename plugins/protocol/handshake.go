package protocol

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	plugin "github.com/hashicorp/go-plugin"

	"github.com/prelet/prelet/plugins/contract"
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
// which must be in the folder that the detector was given. It checks what go-plugin would not check or explain.
func ParseHandshake(line, folder string) (socket string, err error) {
	fields := strings.Split(line, "|")
	if len(fields) <= protocolField {
		return "", fmt.Errorf("its first line is not a handshake: %q", contract.Shorten(line, 100))
	}

	const form = "unsupported %s %q: prelet supports %s"
	for _, f := range []struct {
		index      int
		what, want string
	}{
		{coreField, "version of go-plugin's protocol", strconv.Itoa(plugin.CoreProtocolVersion)},
		{versionField, "version of the detector protocol", strconv.Itoa(Version)},
		{protocolField, "protocol", string(plugin.ProtocolGRPC)},
		{networkField, "network", "unix"},
	} {
		if got := fields[f.index]; got != f.want {
			return "", fmt.Errorf(form, f.what, contract.Shorten(got, 20), f.want)
		}
	}
	if len(fields) > certificateField && fields[certificateField] != "" {
		return "", errors.New("it requires TLS, which prelet does not support")
	}

	socket = fields[addressField]
	inFolder, isBelow := strings.CutPrefix(socket, path.Clean(folder)+"/")
	if !isBelow || inFolder == "" || strings.Contains(inFolder, "..") {
		const text = "invalid socket path %q: want a path in the folder $%s"
		return "", fmt.Errorf(text, contract.Shorten(socket, 100), plugin.EnvUnixSocketDir)
	}

	return socket, nil
}

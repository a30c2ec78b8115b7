package protocol_test

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/plugins/protocol"
)

// TestParseHandshake checks that only a socket in the detector's folder is returned.
func TestParseHandshake(t *testing.T) {
	const folder = "/run/prelet/detectors/prelet-detector-1"
	for line, want := range map[string]string{
		"1|1|unix|" + folder + "/s|grpc":          "",
		"1|1|unix|" + folder + "/plugin123|grpc|": "",
		"1|1|unix|" + folder + "/d/s|grpc||false": "",
		"":                                      "not a handshake",
		"hello":                                 "not a handshake",
		"1|1|unix|" + folder + "/s":             "not a handshake",
		"2|1|unix|" + folder + "/s|grpc":        "go-plugin's protocol",
		"1|2|unix|" + folder + "/s|grpc":        "detector protocol",
		"1|1|tcp|127.0.0.1:1|grpc":              "unsupported network",
		"1|1|unix|" + folder + "/s|netrpc":      "unsupported protocol",
		"1|1|unix|/run/systemd/private|grpc":    "invalid socket path",
		"1|1|unix|" + folder + "/../x|grpc":     "invalid socket path",
		"1|1|unix|" + folder + "|grpc":          "invalid socket path",
		"1|1|unix|" + folder + "x/s|grpc":       "invalid socket path",
		"1|1|unix|@" + folder + "/s|grpc":       "invalid socket path",
		"1|1|unix|" + folder + "/s|grpc|Y2VydA": "TLS",
	} {
		socket, err := protocol.ParseHandshake(line, folder)
		switch {
		case want == "" && (err != nil || !strings.HasPrefix(socket, folder+"/")):
			t.Errorf("%q: got %q, %v; want a socket in the folder", line, socket, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: got %v; want %q", line, err, want)
		}
	}
}

func FuzzParseHandshake(f *testing.F) {
	f.Add("1|1|unix|/x/s|grpc")
	f.Add("1|1|unix|/x/../s|grpc|cert")
	f.Add("|||||")
	f.Fuzz(func(t *testing.T, line string) {
		path, err := protocol.ParseHandshake(line, "/x")
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("%q: got an error of %d bytes; want at most 1000", line, len(err.Error()))
			}
			return
		}
		if !strings.HasPrefix(path, "/x/") || strings.Contains(path, "..") {
			t.Errorf("%q: got no error for the socket %q; want one", line, path)
		}
	})
}

// Package wire is what both ends of a detector's connection must agree on: the handshake, the versions, the names of the
// calls, and the messages of detector.v1 as bytes. prelet's host and the SDK import it; a vendor's own code does not. It reads
// and starts nothing.
//
// The messages are written and read here by hand, from and to package contract. The generated code of plugins/proto says the
// same with protobuf's library, which registers and reflects for a millisecond and a half at every start, in two processes for
// each detector that a boot waits for. Package reference has it, and its tests and fuzz targets compare the two.
package wire

import "github.com/prelet/prelet/plugins/contract"

// The handshake. The cookie keeps a person who runs a detector by hand from a program that waits for ever; it is no
// secret.
const (
	CookieKey   = "PRELET_DETECTOR"
	CookieValue = "detector.v1"

	// Core is the version of go-plugin's own protocol, the first field of the line that a detector prints.
	Core = 1
	// Version is the version of the application protocol, the second field of that line: 1 is the gRPC service
	// detector.v1.DetectorService.
	Version = 1
)

// What a host tells a detector in its environment, as go-plugin names it.
const (
	// Folder is the variable with the folder for the detector's socket.
	Folder = "PLUGIN_UNIX_SOCKET_DIR"
	// Versions is the variable with the versions of the application protocol that the host has, separated by commas.
	Versions = "PLUGIN_PROTOCOL_VERSIONS"
)

// The calls of detector.v1.DetectorService.
const (
	Describe = "/detector.v1.DetectorService/Describe"
	Validate = "/detector.v1.DetectorService/Validate"
	Detect   = "/detector.v1.DetectorService/Detect"
)

// What go-plugin's own hosts call beside them.
const (
	Shutdown = "/plugin.GRPCController/Shutdown"
	Health   = "/grpc.health.v1.Health/Check"
)

// Request is what Detect carries.
type Request struct {
	Config  map[string]any
	Devices []contract.PCIDevice
	Root    string // the folder that stands for "/"; empty means "/"
}

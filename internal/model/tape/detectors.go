package tape

import (
	"encoding/json"

	"github.com/prelet/prelet/plugins/contract"
)

// NotEnded is the finding that a process of a detector was killed and has not ended: the kernel holds it.
const NotEnded = "a process of it could not be ended"

// LockReq asks for the lock of a detector.
type LockReq struct {
	Name string `json:"name"`
}

// LockEntry is an entry of a lock file: the program of a detector, and its description when it was locked.
type LockEntry struct {
	Name     string          `json:"name"`
	Path     string          `json:"path,omitempty"` // "" is /usr/lib/prelet/detectors/NAME
	SHA256   string          `json:"sha256"`         // 64 hexadecimal digits
	Describe json.RawMessage `json:"describe"`       // plugins/contract's Description
}

// LockAns is a lock and its file.
type LockAns struct {
	LockEntry
	File string `json:"file"`
}

// Grants are a site's permissions for a detector: shell patterns of paths, and names of groups. In recordings from
// before there was any_pci_device, every detector may have reported devices that its pci_ids do not name.
type Grants = contract.Needs

// DetectorReq asks one detector. It only has fields that the answer depends on; not the timeout, for example.
type DetectorReq struct {
	Name    string         `json:"name"`
	Config  map[string]any `json:"config,omitempty"` // whole, with defaults
	Devices []PCIDevice    `json:"devices,omitempty"`
	Allow   Grants         `json:"allow,omitzero"`
	Memory  int64          `json:"memory,omitempty"` // bytes
	// WaitFor has the values of facts that end a wait: the detector is asked again until it reports one of each, for
	// at most WaitMillis. The answer does not depend on them, so a recording without a wait has it too.
	WaitFor    map[string][]string `json:"wait_for,omitempty"`
	WaitMillis int64               `json:"wait_ms,omitempty"`
	// Millis is in the questions of recordings from before locks existed only.
	Millis int64 `json:"ms,omitempty"`
}

// DetectorAns is a detector's answer, checked against its description.
type DetectorAns struct {
	Version    string             `json:"version"`
	Devices    []contract.Device  `json:"devices,omitempty"`
	Attributes map[string]string  `json:"attributes"`
	Facts      map[string]any     `json:"facts,omitempty"`
	Labels     map[string]string  `json:"labels"`
	Warnings   []string           `json:"warnings"`
	Evidence   map[string]string  `json:"evidence,omitempty"` // facts.NAME, labels.KEY: where it was read
	Unknown    map[string]string  `json:"unknown,omitempty"`  // facts.NAME: why it is null
	Problems   []contract.Problem `json:"problems,omitempty"` // with any, all other fields are empty
	// Foreign are the addresses of reported PCI devices that its pci_ids do not name and that the site does not
	// allow. They are not among Devices.
	Foreign []string `json:"foreign,omitempty"`
	// Skipped is the reason why it does not apply to this machine.
	Skipped string `json:"skipped,omitempty"`
	// Sandbox lists parts of the sandbox that this kernel or user lacks, Findings the limits of this machine.
	Sandbox  []string `json:"sandbox,omitempty"`
	Findings []string `json:"findings,omitempty"`
}

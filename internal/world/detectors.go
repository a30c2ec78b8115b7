package world

import "encoding/json"

// NotEnded is the finding that a process of a detector was still there half a second after it was killed.
const NotEnded = "a process of it could not be ended"

// LockReq asks what is known of a detector without running it.
type LockReq struct {
	Name string `json:"name"`
}

// Lock is what a lock file says of one detector: which program runs, and what it described when it was locked.
type Lock struct {
	Name     string          `json:"name"`
	Path     string          `json:"path,omitempty"` // "" is /usr/lib/prelet/detectors/NAME
	SHA256   string          `json:"sha256"`         // 64 hexadecimal digits
	Describe json.RawMessage `json:"describe"`       // plugins/contract's Description
}

// LockAns is a lock, and the file that it stands in.
type LockAns struct {
	Lock
	File string `json:"file"`
}

// Grants are what a site grants a detector: shell patterns of paths, and names of groups.
type Grants struct {
	Devices []string `json:"devices,omitempty"`
	Read    []string `json:"read,omitempty"`
	Execute []string `json:"execute,omitempty"`
	Sockets []string `json:"sockets,omitempty"`
	Groups  []string `json:"groups,omitempty"`
	// AnyPCIDevice lets it tell of PCI devices that its pci_ids do not name. Recordings from before there was this grant have
	// answers in which every detector did.
	AnyPCIDevice bool `json:"any_pci_device,omitempty"`
}

// DetectorReq asks one detector. What the answer cannot depend on is not in it: how long one waits, for example.
type DetectorReq struct {
	Name    string         `json:"name"`
	Config  map[string]any `json:"config,omitempty"` // whole, with defaults
	Devices []PCIDevice    `json:"devices,omitempty"`
	Allow   Grants         `json:"allow,omitzero"`
	Memory  int64          `json:"memory,omitempty"` // bytes
	// Millis is in the questions of recordings that were made before there were locks, and in no other.
	Millis int64 `json:"ms,omitempty"`
}

// DetectorAns is what it said, checked against its description.
type DetectorAns struct {
	Version    string            `json:"version"`
	Devices    []DetectorDevice  `json:"devices,omitempty"`
	Attributes map[string]string `json:"attributes"`
	Facts      map[string]any    `json:"facts,omitempty"`
	Labels     map[string]string `json:"labels"`
	Warnings   []string          `json:"warnings"`
	Evidence   map[string]string `json:"evidence,omitempty"` // facts.NAME, labels.KEY: where it was read
	Unknown    map[string]string `json:"unknown,omitempty"`  // facts.NAME: why it is null
	Problems   []ConfigProblem   `json:"problems,omitempty"` // with any, nothing else is there
	// Foreign are the addresses of PCI devices of which it told, which its pci_ids do not name, and which the site does not let
	// it tell of. They are not among Devices.
	Foreign []string `json:"foreign,omitempty"`
	// Skipped is why it had nothing to do on this machine.
	Skipped string `json:"skipped,omitempty"`
	// Sandbox is what of the sandbox this kernel or this user does not have, Findings what something on the machine prevents.
	Sandbox  []string `json:"sandbox,omitempty"`
	Findings []string `json:"findings,omitempty"`
}

// ConfigProblem is what a detector has against its configuration. Path is as in a site: firmware.minimum, ports[1].speed.
type ConfigProblem struct {
	Path    string `json:"path,omitempty"`
	Summary string `json:"summary"`
	Detail  string `json:"detail,omitempty"`
}

// DetectorDevice is one device that a detector found; nil is "says nothing of it".
type DetectorDevice struct {
	Address       string            `json:"address,omitempty"`
	Name          *string           `json:"name,omitempty"`
	Kind          *string           `json:"kind,omitempty"` // gpu | npu | fpga | dpu | nic
	Vendor        *string           `json:"vendor,omitempty"`
	Model         *string           `json:"model,omitempty"`
	Driver        *string           `json:"driver,omitempty"`
	MemoryBytes   *uint64           `json:"memory_bytes,omitempty"`
	NUMA          *int              `json:"numa,omitempty"`
	Interface     *string           `json:"interface,omitempty"`
	SpeedGbps     *float64          `json:"speed_gbps,omitempty"`
	Link          *string           `json:"link,omitempty"`
	SRIOVTotalVFs *int              `json:"sriov_total_vfs,omitempty"`
	SRIOVNumVFs   *int              `json:"sriov_num_vfs,omitempty"`
	Attributes    map[string]string `json:"attributes,omitempty"`
	Evidence      map[string]string `json:"evidence,omitempty"` // of a field or attributes.NAME: where it was read
}

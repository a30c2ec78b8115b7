// Package contract defines the data of detectors as plain Go: the forms of a description, a configuration and an
// answer, their limits, and the checks that reject them. prelet and detectors use the same checks, so a vendor's test
// fails where a node would reject an answer. It imports the standard library only, because prelet imports it too. It
// reads no file and starts no process. The wire protocol is in plugins/protocol.
//
// Values are those of encoding/json: nil, string, float64, bool, []any and map[string]any. Nil means unknown.
package contract

import (
	"fmt"
	"strings"
)

// Description declares a detector: its machines, its needs and the content of its answers. It is the same on every
// machine. Its JSON is the field "describe" of a lock file.
type Description struct {
	Name         string      `json:"name"` // [a-z][a-z0-9-]*; also the name of the program and of the site's block
	Version      string      `json:"version"`
	Vendor       string      `json:"vendor,omitempty"`
	Doc          string      `json:"doc,omitempty"` // its purpose, one sentence
	Config       []Attribute `json:"config,omitempty"`
	Facts        []Attribute `json:"facts,omitempty"`
	LabelDomains []string    `json:"label_domains,omitempty"` // example.com allows example.com/x and a.example.com/x
	Match        Match       `json:"match"`
	Needs        Needs       `json:"needs"` // required: without these it is not started
	Wants        Needs       `json:"wants"` // optional: without these it returns less
	// TimeoutSeconds is how long Detect may take where the site gives no timeout, if that is more than 10.
	TimeoutSeconds int `json:"timeout_seconds,omitempty"`
}

// Match selects the machines on which a detector is started. One matching entry is enough.
type Match struct {
	PCIIDs []string `json:"pci_ids,omitempty"` // 10de:2330, 10de:*, 10de:*:03, 10de:*:0302
	Paths  []string `json:"paths,omitempty"`   // absolute; below PatternFolders * matches any part of one name
	Always bool     `json:"always,omitempty"`
}

// Needs lists the access of a detector in addition to reading /sys, /proc and the system's libraries. Paths are
// absolute; * matches any part of one name.
type Needs struct {
	Devices []string `json:"devices,omitempty"`
	Read    []string `json:"read,omitempty"`
	Execute []string `json:"execute,omitempty"`
	Sockets []string `json:"sockets,omitempty"`
	Groups  []string `json:"groups,omitempty"`
	// AnyPCIDevice allows devices in the answer that match.pci_ids does not match.
	AnyPCIDevice bool `json:"any_pci_device,omitempty"`
}

// Empty reports whether a detector needs nothing.
func (n Needs) Empty() bool {
	count := len(n.Devices) +
		len(n.Read) +
		len(n.Execute) +
		len(n.Sockets) +
		len(n.Groups)

	return count == 0 && !n.AnyPCIDevice
}

// Attribute declares an attribute of a configuration, or a fact.
type Attribute struct {
	Name     string   `json:"name"` // [a-z][a-z0-9_]*
	Type     Type     `json:"type"`
	Doc      string   `json:"doc,omitempty"`
	Required bool     `json:"required,omitempty"` // configurations only
	Default  any      `json:"default,omitempty"`  // configurations only; nil: null
	Unit     string   `json:"unit,omitempty"`
	OneOf    []string `json:"one_of,omitempty"`  // valid strings
	Minimum  *float64 `json:"minimum,omitempty"` // numbers only
	Maximum  *float64 `json:"maximum,omitempty"`
}

// Kind is the outermost form of a type.
type Kind string

// The kinds.
const (
	String Kind = "string"
	Number Kind = "number"
	Bool   Kind = "bool"
	List   Kind = "list"
	Map    Kind = "map"
	Object Kind = "object"
)

// Type is the type of a value.
type Type struct {
	Kind       Kind        `json:"kind"`
	Element    *Type       `json:"element,omitempty"`    // lists and maps only
	Attributes []Attribute `json:"attributes,omitempty"` // objects only
}

// String returns a type in HCL's form: list(object({name=string})).
func (t Type) String() string {
	switch t.Kind {
	case List, Map:
		if t.Element == nil {
			return string(t.Kind) + "(?)"
		}
		return fmt.Sprintf("%s(%s)", t.Kind, t.Element)
	case Object:
		var fields []string
		for _, a := range t.Attributes {
			fields = append(fields, a.Name+"="+a.Type.String())
		}
		return "object({" + strings.Join(fields, ", ") + "})"
	}

	return string(t.Kind)
}

// PCIDevice is a PCI function as in sysfs. Ids are lower-case hexadecimal without 0x: four digits, Class six.
type PCIDevice struct {
	Address         string `json:"address"` // 0000:17:00.0
	Vendor          string `json:"vendor"`
	Device          string `json:"device"`
	SubsystemVendor string `json:"subsystem_vendor"`
	SubsystemDevice string `json:"subsystem_device"`
	Class           string `json:"class"`
	Driver          string `json:"driver,omitempty"`
	NUMA            *int   `json:"numa,omitempty"`
}

// Request is sent to a detector for each detection.
type Request struct {
	Config  map[string]any `json:"config,omitempty"` // complete, with defaults
	Devices []PCIDevice    `json:"devices,omitempty"`
	Root    string         `json:"root,omitempty"` // the folder that replaces "/"; empty means "/"
}

// Answer is the result of a detection. A field that is not set is unknown, never zero.
type Answer struct {
	Devices    []Device          `json:"devices"`
	Attributes map[string]string `json:"attributes"`
	Facts      []Fact            `json:"facts"`
	Labels     []Label           `json:"labels"`
	Warnings   []string          `json:"warnings"`
	// Problems are about the configuration. If there are any, the other fields are ignored.
	Problems []Problem `json:"problems,omitempty"`
}

// Device is a detected device. Fields that are set overrule the built-in detection of the same address.
type Device struct {
	Address       string            `json:"address,omitempty"` // 0000:17:00.0; empty for a device without one
	Name          *string           `json:"name,omitempty"`    // as the vendor's tools print it
	Kind          *string           `json:"kind,omitempty"`    // gpu | npu | fpga | dpu | nic
	Vendor        *string           `json:"vendor,omitempty"`  // lower case
	Model         *string           `json:"model,omitempty"`   // the name without the vendor
	Driver        *string           `json:"driver,omitempty"`
	MemoryBytes   *uint64           `json:"memory_bytes,omitempty"`
	NUMA          *int              `json:"numa,omitempty"`
	Interface     *string           `json:"interface,omitempty"`
	SpeedGbps     *float64          `json:"speed_gbps,omitempty"` // not set while the link is down
	Link          *string           `json:"link,omitempty"`       // up | down
	SRIOVTotalVFs *int              `json:"sriov_total_vfs,omitempty"`
	SRIOVNumVFs   *int              `json:"sriov_num_vfs,omitempty"`
	Attributes    map[string]string `json:"attributes,omitempty"`
	// Where fields were read, by JSON name or attributes.NAME.
	Evidence map[string]string `json:"evidence,omitempty"`
}

// Fact is the value of a described fact.
type Fact struct {
	Name     string `json:"name"`
	Value    any    `json:"value"`              // of the described type; nil: unknown, with a reason
	Evidence string `json:"evidence,omitempty"` // where it was read
	Unknown  string `json:"unknown,omitempty"`  // why it is unknown
}

// Label is a recommended label.
type Label struct {
	Key      string `json:"key"`
	Value    string `json:"value"`
	Evidence string `json:"evidence,omitempty"` // where its value was read
}

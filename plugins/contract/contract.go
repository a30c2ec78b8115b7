// Package contract is what a detector and prelet promise each other, as plain Go: what a description, a configuration
// and an answer look like, how large they may be, and what makes one refused. Both sides check with the same code, so a
// vendor's test refuses what a node would. The standard library only, so that prelet itself can use it: no gRPC, no
// protobuf (that is plugins/protocol), no file, no process.
//
// Values are those of encoding/json: nil, string, float64, bool, []any, map[string]any. Nil is unknown.
package contract

// Description is what a detector is, and all that it may say. It is the same on every machine; in JSON it is the
// "describe" of a lock file.
type Description struct {
	Name         string      `json:"name"` // [a-z][a-z0-9-]*, also of the program and of the site's block
	Version      string      `json:"version"`
	Vendor       string      `json:"vendor,omitempty"`
	Doc          string      `json:"doc,omitempty"` // what it finds, a sentence
	Config       []Attribute `json:"config,omitempty"`
	Facts        []Attribute `json:"facts,omitempty"`
	LabelDomains []string    `json:"label_domains,omitempty"` // example.com allows example.com/x and a.example.com/x
	Match        Match       `json:"match"`
	Needs        Needs       `json:"needs"` // without these it is not started
	Wants        Needs       `json:"wants"` // without these it tells less
}

// Match says on which machines a detector has something to do: any one of these.
type Match struct {
	PCIIDs []string `json:"pci_ids,omitempty"` // 10de:2330, 10de:*, 10de:*:03, 10de:*:0302
	Paths  []string `json:"paths,omitempty"`   // absolute; * stands for any part of one name, below PatternFolders
	Always bool     `json:"always,omitempty"`
}

// Needs is what a detector asks for beyond reading /sys, /proc and the system's libraries, and beyond telling of its own
// devices. Paths are absolute; * stands for any part of one name.
type Needs struct {
	Devices []string `json:"devices,omitempty"`
	Read    []string `json:"read,omitempty"`
	Execute []string `json:"execute,omitempty"`
	Sockets []string `json:"sockets,omitempty"`
	Groups  []string `json:"groups,omitempty"`
	// AnyPCIDevice is to tell of PCI devices that match.pci_ids does not name.
	AnyPCIDevice bool `json:"any_pci_device,omitempty"`
}

// Empty tells whether nothing is asked for.
func (n Needs) Empty() bool {
	return len(n.Devices)+len(n.Read)+len(n.Execute)+len(n.Sockets)+len(n.Groups) == 0 && !n.AnyPCIDevice
}

// Attribute declares one attribute of a configuration, or one fact.
type Attribute struct {
	Name     string   `json:"name"` // [a-z][a-z0-9_]*
	Type     Type     `json:"type"`
	Doc      string   `json:"doc,omitempty"`
	Required bool     `json:"required,omitempty"` // of a configuration
	Default  any      `json:"default,omitempty"`  // of a configuration; nil: null
	Unit     string   `json:"unit,omitempty"`
	OneOf    []string `json:"one_of,omitempty"`  // what a string may be
	Minimum  *float64 `json:"minimum,omitempty"` // of a number
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
	Element    *Type       `json:"element,omitempty"`    // of a list or a map
	Attributes []Attribute `json:"attributes,omitempty"` // of an object
}

// String writes a type as people do: list(object({name=string})).
func (t Type) String() string {
	switch t.Kind {
	case List, Map:
		if t.Element == nil {
			return string(t.Kind) + "(?)"
		}
		return string(t.Kind) + "(" + t.Element.String() + ")"
	case Object:
		s := "object({"
		for i, a := range t.Attributes {
			if i > 0 {
				s += ", "
			}
			s += a.Name + "=" + a.Type.String()
		}
		return s + "})"
	}
	return string(t.Kind)
}

// PCIDevice is one PCI function as sysfs shows it. Ids are lower-case hexadecimal without 0x: four digits, Class six.
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

// Answer is what a detector found. What is not set is unknown, never zero.
type Answer struct {
	Devices    []Device          `json:"devices"`
	Attributes map[string]string `json:"attributes"`
	Facts      []Fact            `json:"facts"`
	Labels     []Label           `json:"labels"`
	Warnings   []string          `json:"warnings"`
	// Problems are of the configuration; with any, nothing else counts.
	Problems []Problem `json:"problems,omitempty"`
}

// Device is one device that was found. A field that is set overrules what the built-in detection says of this address.
type Device struct {
	Address       string            `json:"address,omitempty"` // 0000:17:00.0; empty for one that has none
	Name          *string           `json:"name,omitempty"`    // as the vendor's own tools print it
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
	Evidence      map[string]string `json:"evidence,omitempty"` // a field's JSON name, or attributes.NAME → where it was read
}

// Fact is the value of one described fact.
type Fact struct {
	Name     string `json:"name"`
	Value    any    `json:"value"`              // of the described type; nil: unknown
	Evidence string `json:"evidence,omitempty"` // where it was read
	Unknown  string `json:"unknown,omitempty"`  // why it is unknown
}

// Label is one recommended label.
type Label struct {
	Key      string `json:"key"`
	Value    string `json:"value"`
	Evidence string `json:"evidence,omitempty"` // what it was made of
}

package reference

import (
	"math"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/prelet/prelet/plugins/contract"
	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
)

// DescriptionToProto writes a description for the wire.
func DescriptionToProto(d contract.Description) *detectorv1.DescribeResponse {
	return &detectorv1.DescribeResponse{
		Name: d.Name, Version: d.Version, Vendor: d.Vendor, Doc: d.Doc,
		Config: attributesToProto(d.Config), Facts: attributesToProto(d.Facts), LabelDomains: d.LabelDomains,
		Match: &detectorv1.Match{PciIds: d.Match.PCIIDs, Paths: d.Match.Paths, Always: d.Match.Always},
		Needs: needsToProto(d.Needs), Wants: needsToProto(d.Wants),
	}
}

// DescriptionFromProto reads one. It checks nothing: contract.Description.Check does.
func DescriptionFromProto(p *detectorv1.DescribeResponse) contract.Description {
	return contract.Description{
		Name: p.GetName(), Version: p.GetVersion(), Vendor: p.GetVendor(), Doc: p.GetDoc(),
		Config: attributesFromProto(p.GetConfig()), Facts: attributesFromProto(p.GetFacts()), LabelDomains: p.GetLabelDomains(),
		Match: contract.Match{PCIIDs: p.GetMatch().GetPciIds(), Paths: p.GetMatch().GetPaths(), Always: p.GetMatch().GetAlways()},
		Needs: needsFromProto(p.GetNeeds()), Wants: needsFromProto(p.GetWants()),
	}
}

func needsToProto(n contract.Needs) *detectorv1.Needs {
	return &detectorv1.Needs{Devices: n.Devices, Read: n.Read, Execute: n.Execute, Sockets: n.Sockets, Groups: n.Groups}
}

func needsFromProto(p *detectorv1.Needs) contract.Needs {
	return contract.Needs{Devices: p.GetDevices(), Read: p.GetRead(), Execute: p.GetExecute(), Sockets: p.GetSockets(), Groups: p.GetGroups()}
}

func attributesToProto(list []contract.Attribute) []*detectorv1.Attribute {
	var out []*detectorv1.Attribute
	for _, a := range list {
		p := &detectorv1.Attribute{Name: a.Name, Type: typeToProto(a.Type), Doc: a.Doc, Required: a.Required, Unit: a.Unit,
			OneOf: a.OneOf, Minimum: a.Minimum, Maximum: a.Maximum}
		if a.Default != nil {
			p.Default = ValueToProto(a.Default)
		}
		out = append(out, p)
	}
	return out
}

func attributesFromProto(list []*detectorv1.Attribute) []contract.Attribute {
	var out []contract.Attribute
	for _, p := range list {
		out = append(out, contract.Attribute{Name: p.GetName(), Type: typeFromProto(p.GetType()), Doc: p.GetDoc(), Required: p.GetRequired(),
			Default: ValueFromProto(p.GetDefault()), Unit: p.GetUnit(), OneOf: p.GetOneOf(), Minimum: p.Minimum, Maximum: p.Maximum})
	}
	return out
}

func typeToProto(t contract.Type) *detectorv1.Type {
	p := &detectorv1.Type{Kind: kindsToProto()[t.Kind], Attributes: attributesToProto(t.Attributes)}
	if t.Element != nil {
		p.Element = typeToProto(*t.Element)
	}
	return p
}

func typeFromProto(p *detectorv1.Type) contract.Type {
	var t contract.Type
	for k, v := range kindsToProto() {
		if v == p.GetKind() {
			t.Kind = k
		}
	}
	t.Attributes = attributesFromProto(p.GetAttributes())
	if p.GetElement() != nil {
		e := typeFromProto(p.GetElement())
		t.Element = &e
	}
	return t
}

func kindsToProto() map[contract.Kind]detectorv1.Type_Kind {
	return map[contract.Kind]detectorv1.Type_Kind{
		contract.String: detectorv1.Type_KIND_STRING, contract.Number: detectorv1.Type_KIND_NUMBER, contract.Bool: detectorv1.Type_KIND_BOOL,
		contract.List: detectorv1.Type_KIND_LIST, contract.Map: detectorv1.Type_KIND_MAP, contract.Object: detectorv1.Type_KIND_OBJECT,
	}
}

// ValueToProto writes a value of package contract. What is none becomes null; contract's checks find that before.
func ValueToProto(v any) *structpb.Value {
	switch v := v.(type) {
	case string:
		return structpb.NewStringValue(v)
	case float64:
		return structpb.NewNumberValue(v)
	case int:
		return structpb.NewNumberValue(float64(v))
	case bool:
		return structpb.NewBoolValue(v)
	case []any:
		l := &structpb.ListValue{}
		for _, e := range v {
			l.Values = append(l.Values, ValueToProto(e))
		}
		return structpb.NewListValue(l)
	case map[string]any:
		return structpb.NewStructValue(StructToProto(v))
	}
	return structpb.NewNullValue()
}

// StructToProto writes an object.
func StructToProto(m map[string]any) *structpb.Struct {
	s := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(m))}
	for k, v := range m {
		s.Fields[k] = ValueToProto(v)
	}
	return s
}

// ValueFromProto reads a value; one that is not set is nil.
func ValueFromProto(p *structpb.Value) any {
	switch k := p.GetKind().(type) {
	case *structpb.Value_StringValue:
		return k.StringValue
	case *structpb.Value_NumberValue:
		return k.NumberValue
	case *structpb.Value_BoolValue:
		return k.BoolValue
	case *structpb.Value_ListValue:
		out := make([]any, len(k.ListValue.GetValues()))
		for i, e := range k.ListValue.GetValues() {
			out[i] = ValueFromProto(e)
		}
		return out
	case *structpb.Value_StructValue:
		return StructFromProto(k.StructValue)
	}
	return nil
}

// StructFromProto reads an object; it is never nil.
func StructFromProto(p *structpb.Struct) map[string]any {
	out := make(map[string]any, len(p.GetFields()))
	for k, v := range p.GetFields() {
		out[k] = ValueFromProto(v)
	}
	return out
}

// DevicesToProto writes PCI devices.
func DevicesToProto(list []contract.PCIDevice) []*detectorv1.PciDevice {
	var out []*detectorv1.PciDevice
	for _, d := range list {
		out = append(out, &detectorv1.PciDevice{Address: d.Address, Vendor: d.Vendor, Device: d.Device, SubsystemVendor: d.SubsystemVendor,
			SubsystemDevice: d.SubsystemDevice, Class: d.Class, Driver: d.Driver, Numa: small(d.NUMA)})
	}
	return out
}

// DevicesFromProto reads PCI devices.
func DevicesFromProto(list []*detectorv1.PciDevice) []contract.PCIDevice {
	var out []contract.PCIDevice
	for _, p := range list {
		out = append(out, contract.PCIDevice{Address: p.GetAddress(), Vendor: p.GetVendor(), Device: p.GetDevice(), SubsystemVendor: p.GetSubsystemVendor(),
			SubsystemDevice: p.GetSubsystemDevice(), Class: p.GetClass(), Driver: p.GetDriver(), NUMA: whole(p.Numa)})
	}
	return out
}

// AnswerToProto writes an answer.
func AnswerToProto(a contract.Answer) *detectorv1.DetectResponse {
	p := &detectorv1.DetectResponse{Attributes: a.Attributes, Warnings: a.Warnings, Problems: ProblemsToProto(a.Problems)}
	for _, d := range a.Devices {
		p.Devices = append(p.Devices, &detectorv1.Device{Address: d.Address, Name: d.Name, Kind: d.Kind, Vendor: d.Vendor, Model: d.Model,
			Driver: d.Driver, MemoryBytes: d.MemoryBytes, Numa: small(d.NUMA), Interface: d.Interface, SpeedGbps: d.SpeedGbps, Link: d.Link,
			SriovTotalVfs: small(d.SRIOVTotalVFs), SriovNumVfs: small(d.SRIOVNumVFs), Attributes: d.Attributes, Evidence: d.Evidence})
	}
	for _, f := range a.Facts {
		p.Facts = append(p.Facts, &detectorv1.Fact{Name: f.Name, Value: ValueToProto(f.Value), Evidence: f.Evidence, Unknown: f.Unknown})
	}
	for _, l := range a.Labels {
		p.Labels = append(p.Labels, &detectorv1.Label{Key: l.Key, Value: l.Value, Evidence: l.Evidence})
	}
	return p
}

// AnswerFromProto reads an answer. It checks nothing: contract.Description.CheckAnswer does.
func AnswerFromProto(p *detectorv1.DetectResponse) contract.Answer {
	a := contract.Answer{Attributes: p.GetAttributes(), Warnings: p.GetWarnings(), Problems: ProblemsFromProto(p.GetProblems())}
	for _, d := range p.GetDevices() {
		a.Devices = append(a.Devices, contract.Device{Address: d.GetAddress(), Name: d.Name, Kind: d.Kind, Vendor: d.Vendor, Model: d.Model,
			Driver: d.Driver, MemoryBytes: d.MemoryBytes, NUMA: whole(d.Numa), Interface: d.Interface, SpeedGbps: d.SpeedGbps, Link: d.Link,
			SRIOVTotalVFs: whole(d.SriovTotalVfs), SRIOVNumVFs: whole(d.SriovNumVfs), Attributes: d.GetAttributes(), Evidence: d.GetEvidence()})
	}
	for _, f := range p.GetFacts() {
		a.Facts = append(a.Facts, contract.Fact{Name: f.GetName(), Value: ValueFromProto(f.GetValue()), Evidence: f.GetEvidence(), Unknown: f.GetUnknown()})
	}
	for _, l := range p.GetLabels() {
		a.Labels = append(a.Labels, contract.Label{Key: l.GetKey(), Value: l.GetValue(), Evidence: l.GetEvidence()})
	}
	return a
}

// ProblemsToProto writes problems.
func ProblemsToProto(list []contract.Problem) []*detectorv1.Problem {
	var out []*detectorv1.Problem
	for _, x := range list {
		out = append(out, &detectorv1.Problem{Path: x.Path, Summary: x.Summary, Detail: x.Detail})
	}
	return out
}

// ProblemsFromProto reads problems.
func ProblemsFromProto(list []*detectorv1.Problem) contract.Problems {
	var out contract.Problems
	for _, p := range list {
		out = append(out, contract.Problem{Path: p.GetPath(), Summary: p.GetSummary(), Detail: p.GetDetail()})
	}
	return out
}

// small writes a count. One that does not fit is written as one that the checks refuse, not as another number.
func small(n *int) *uint32 {
	if n == nil {
		return nil
	}
	if *n < 0 || *n > math.MaxUint32 {
		most := uint32(math.MaxUint32)
		return &most
	}
	v := uint32(*n)
	return &v
}

func whole(n *uint32) *int {
	if n == nil {
		return nil
	}
	v := int(*n)
	return &v
}

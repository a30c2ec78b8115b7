package protocol

import (
	"math"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/prelet/prelet/plugins/contract"
	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
)

// convertEach converts the elements of a list. An empty list becomes nil.
func convertEach[A, B any](list []A, convert func(A) B) []B {
	var out []B
	for _, a := range list {
		out = append(out, convert(a))
	}

	return out
}

// DescriptionToProto converts a description.
func DescriptionToProto(d contract.Description) *detectorv1.DescribeResponse {
	return &detectorv1.DescribeResponse{
		Name:         d.Name,
		Version:      d.Version,
		Vendor:       d.Vendor,
		Doc:          d.Doc,
		Config:       convertEach(d.Config, attributeToProto),
		Facts:        convertEach(d.Facts, attributeToProto),
		LabelDomains: d.LabelDomains,
		Match: &detectorv1.Match{
			PciIds: d.Match.PCIIDs,
			Paths:  d.Match.Paths,
			Always: d.Match.Always,
		},
		Needs: needsToProto(d.Needs),
		Wants: needsToProto(d.Wants),
	}
}

// DescriptionFromProto converts a description. It checks nothing: contract.Description.Check does.
func DescriptionFromProto(p *detectorv1.DescribeResponse) contract.Description {
	m := p.GetMatch()

	return contract.Description{
		Name:         p.GetName(),
		Version:      p.GetVersion(),
		Vendor:       p.GetVendor(),
		Doc:          p.GetDoc(),
		Config:       convertEach(p.GetConfig(), attributeFromProto),
		Facts:        convertEach(p.GetFacts(), attributeFromProto),
		LabelDomains: p.GetLabelDomains(),
		Match: contract.Match{
			PCIIDs: m.GetPciIds(),
			Paths:  m.GetPaths(),
			Always: m.GetAlways(),
		},
		Needs: needsFromProto(p.GetNeeds()),
		Wants: needsFromProto(p.GetWants()),
	}
}

func needsToProto(n contract.Needs) *detectorv1.Needs {
	return &detectorv1.Needs{
		Devices: n.Devices,
		Read:    n.Read,
		Execute: n.Execute,
		Sockets: n.Sockets,
		Groups:  n.Groups,

		AnyPciDevice: n.AnyPCIDevice,
	}
}

func needsFromProto(p *detectorv1.Needs) contract.Needs {
	return contract.Needs{
		Devices: p.GetDevices(),
		Read:    p.GetRead(),
		Execute: p.GetExecute(),
		Sockets: p.GetSockets(),
		Groups:  p.GetGroups(),

		AnyPCIDevice: p.GetAnyPciDevice(),
	}
}

func attributeToProto(a contract.Attribute) *detectorv1.Attribute {
	p := &detectorv1.Attribute{
		Name:     a.Name,
		Type:     typeToProto(a.Type),
		Doc:      a.Doc,
		Required: a.Required,
		Unit:     a.Unit,
		OneOf:    a.OneOf,
		Minimum:  a.Minimum,
		Maximum:  a.Maximum,
	}
	if a.Default != nil {
		p.Default = valueToProto(a.Default)
	}

	return p
}

func attributeFromProto(p *detectorv1.Attribute) contract.Attribute {
	return contract.Attribute{
		Name:     p.GetName(),
		Type:     typeFromProto(p.GetType()),
		Doc:      p.GetDoc(),
		Required: p.GetRequired(),
		Default:  valueFromProto(p.GetDefault()),
		Unit:     p.GetUnit(),
		OneOf:    p.GetOneOf(),
		Minimum:  p.Minimum,
		Maximum:  p.Maximum,
	}
}

func typeToProto(t contract.Type) *detectorv1.Type {
	p := &detectorv1.Type{
		Kind:       kindsToProto()[t.Kind],
		Attributes: convertEach(t.Attributes, attributeToProto),
	}
	if t.Element != nil {
		p.Element = typeToProto(*t.Element)
	}

	return p
}

func typeFromProto(p *detectorv1.Type) contract.Type {
	t := contract.Type{Attributes: convertEach(p.GetAttributes(), attributeFromProto)}

	for kind, number := range kindsToProto() {
		if number == p.GetKind() {
			t.Kind = kind
		}
	}

	if p.GetElement() != nil {
		element := typeFromProto(p.GetElement())
		t.Element = &element
	}

	return t
}

func kindsToProto() map[contract.Kind]detectorv1.Type_Kind {
	return map[contract.Kind]detectorv1.Type_Kind{
		contract.String: detectorv1.Type_KIND_STRING,
		contract.Number: detectorv1.Type_KIND_NUMBER,
		contract.Bool:   detectorv1.Type_KIND_BOOL,
		contract.List:   detectorv1.Type_KIND_LIST,
		contract.Map:    detectorv1.Type_KIND_MAP,
		contract.Object: detectorv1.Type_KIND_OBJECT,
	}
}

// valueToProto converts a value. A Go type that is not one of the contract's values becomes null; the contract's
// checks find that before.
func valueToProto(v any) *structpb.Value {
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
		return structpb.NewListValue(&structpb.ListValue{Values: convertEach(v, valueToProto)})
	case map[string]any:
		return structpb.NewStructValue(StructToProto(v))
	}

	return structpb.NewNullValue()
}

// valueFromProto converts a value. A missing value is nil. Numbers that are not finite stay numbers, for the checks;
// structpb would convert them to strings.
func valueFromProto(p *structpb.Value) any {
	switch kind := p.GetKind().(type) {
	case *structpb.Value_NumberValue:
		return kind.NumberValue
	case *structpb.Value_ListValue:
		out := make([]any, len(kind.ListValue.GetValues()))
		for i, v := range kind.ListValue.GetValues() {
			out[i] = valueFromProto(v)
		}
		return out
	case *structpb.Value_StructValue:
		out := make(map[string]any, len(kind.StructValue.GetFields()))
		for k, v := range kind.StructValue.GetFields() {
			out[k] = valueFromProto(v)
		}
		return out
	}

	return p.AsInterface()
}

// StructToProto converts an object.
func StructToProto(m map[string]any) *structpb.Struct {
	s := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(m))}
	for k, v := range m {
		s.Fields[k] = valueToProto(v)
	}

	return s
}

// RequestToProto converts the content of a Detect call.
func RequestToProto(r Request) *detectorv1.DetectRequest {
	return &detectorv1.DetectRequest{
		Config:  StructToProto(r.Config),
		Devices: convertEach(r.Devices, pciDeviceToProto),
		Root:    r.Root,
	}
}

// RequestFromProto converts the content of a Detect call. The configuration is never nil.
func RequestFromProto(p *detectorv1.DetectRequest) Request {
	return Request{
		Config:  p.GetConfig().AsMap(),
		Devices: convertEach(p.GetDevices(), pciDeviceFromProto),
		Root:    p.GetRoot(),
	}
}

func pciDeviceToProto(d contract.PCIDevice) *detectorv1.PciDevice {
	return &detectorv1.PciDevice{
		Address:         d.Address,
		Vendor:          d.Vendor,
		Device:          d.Device,
		SubsystemVendor: d.SubsystemVendor,
		SubsystemDevice: d.SubsystemDevice,
		Class:           d.Class,
		Driver:          d.Driver,
		Numa:            countToProto(d.NUMA),
	}
}

func pciDeviceFromProto(p *detectorv1.PciDevice) contract.PCIDevice {
	return contract.PCIDevice{
		Address:         p.GetAddress(),
		Vendor:          p.GetVendor(),
		Device:          p.GetDevice(),
		SubsystemVendor: p.GetSubsystemVendor(),
		SubsystemDevice: p.GetSubsystemDevice(),
		Class:           p.GetClass(),
		Driver:          p.GetDriver(),
		NUMA:            countFromProto(p.Numa),
	}
}

// AnswerToProto converts an answer.
func AnswerToProto(a contract.Answer) *detectorv1.DetectResponse {
	return &detectorv1.DetectResponse{
		Devices:    convertEach(a.Devices, deviceToProto),
		Attributes: a.Attributes,
		Facts:      convertEach(a.Facts, factToProto),
		Labels:     convertEach(a.Labels, labelToProto),
		Warnings:   a.Warnings,
		Problems:   ProblemsToProto(a.Problems),
	}
}

// AnswerFromProto converts an answer. It checks nothing: contract.Description.CheckAnswer does.
func AnswerFromProto(p *detectorv1.DetectResponse) contract.Answer {
	return contract.Answer{
		Devices:    convertEach(p.GetDevices(), deviceFromProto),
		Attributes: p.GetAttributes(),
		Facts:      convertEach(p.GetFacts(), factFromProto),
		Labels:     convertEach(p.GetLabels(), labelFromProto),
		Warnings:   p.GetWarnings(),
		Problems:   ProblemsFromProto(p.GetProblems()),
	}
}

func deviceToProto(d contract.Device) *detectorv1.Device {
	return &detectorv1.Device{
		Address:       d.Address,
		Name:          d.Name,
		Kind:          d.Kind,
		Vendor:        d.Vendor,
		Model:         d.Model,
		Driver:        d.Driver,
		MemoryBytes:   d.MemoryBytes,
		Numa:          countToProto(d.NUMA),
		Interface:     d.Interface,
		SpeedGbps:     d.SpeedGbps,
		Link:          d.Link,
		SriovTotalVfs: countToProto(d.SRIOVTotalVFs),
		SriovNumVfs:   countToProto(d.SRIOVNumVFs),
		Attributes:    d.Attributes,
		Evidence:      d.Evidence,
	}
}

func deviceFromProto(p *detectorv1.Device) contract.Device {
	return contract.Device{
		Address:       p.GetAddress(),
		Name:          p.Name,
		Kind:          p.Kind,
		Vendor:        p.Vendor,
		Model:         p.Model,
		Driver:        p.Driver,
		MemoryBytes:   p.MemoryBytes,
		NUMA:          countFromProto(p.Numa),
		Interface:     p.Interface,
		SpeedGbps:     p.SpeedGbps,
		Link:          p.Link,
		SRIOVTotalVFs: countFromProto(p.SriovTotalVfs),
		SRIOVNumVFs:   countFromProto(p.SriovNumVfs),
		Attributes:    p.GetAttributes(),
		Evidence:      p.GetEvidence(),
	}
}

func factToProto(f contract.Fact) *detectorv1.Fact {
	return &detectorv1.Fact{
		Name:     f.Name,
		Value:    valueToProto(f.Value),
		Evidence: f.Evidence,
		Unknown:  f.Unknown,
	}
}

func factFromProto(p *detectorv1.Fact) contract.Fact {
	return contract.Fact{
		Name:     p.GetName(),
		Value:    valueFromProto(p.GetValue()),
		Evidence: p.GetEvidence(),
		Unknown:  p.GetUnknown(),
	}
}

func labelToProto(l contract.Label) *detectorv1.Label {
	return &detectorv1.Label{
		Key:      l.Key,
		Value:    l.Value,
		Evidence: l.Evidence,
	}
}

func labelFromProto(p *detectorv1.Label) contract.Label {
	return contract.Label{
		Key:      p.GetKey(),
		Value:    p.GetValue(),
		Evidence: p.GetEvidence(),
	}
}

// ProblemsToProto converts problems.
func ProblemsToProto(list []contract.Problem) []*detectorv1.Problem {
	return convertEach(list, func(x contract.Problem) *detectorv1.Problem {
		return &detectorv1.Problem{
			Path:    x.Path,
			Summary: x.Summary,
			Detail:  x.Detail,
		}
	})
}

// ProblemsFromProto converts problems.
func ProblemsFromProto(list []*detectorv1.Problem) contract.Problems {
	return convertEach(list, func(p *detectorv1.Problem) contract.Problem {
		return contract.Problem{
			Path:    p.GetPath(),
			Summary: p.GetSummary(),
			Detail:  p.GetDetail(),
		}
	})
}

// countToProto converts a count. A count that does not fit becomes an invalid count, not another valid one.
func countToProto(n *int) *uint32 {
	if n == nil {
		return nil
	}

	if *n < 0 || *n > math.MaxUint32 {
		return new(uint32(math.MaxUint32))
	}

	return new(uint32(*n))
}

func countFromProto(n *uint32) *int {
	if n == nil {
		return nil
	}

	return new(int(*n))
}

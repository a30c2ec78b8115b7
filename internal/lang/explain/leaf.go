package explain

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/world"
)

// answered is the answer on the tape to a question, and whether it was asked.
func (w *walker) answered(q world.Question) (world.Answer, bool) {
	for _, e := range w.entries {
		if e.Question == q {
			return e.Answer, true
		}
	}
	return world.Answer{}, false
}

func answerTo(q world.Question, a world.Answer, pointer string) *Answer {
	return &Answer{Kind: q.Kind, Args: json.RawMessage(q.Args), Pointer: pointer, Fail: a.Name(), Stale: a.Stale}
}

// variable tells where a variable has its value from.
func (w *walker) variable(name string, p path, shown string, at hcl.Range, depth int) {
	v := w.plan.Site.Variables[name]
	if v == nil {
		return
	}
	s := Step{Kind: origin.Variable, Text: "var." + name + p.String(), Value: shown, Ref: "var." + name, Range: at}
	q := world.Variable.Question(world.VariableReq{Name: name, Sensitive: v.Sensitive})
	a, asked := w.answered(q)
	if asked {
		s.Answer = answerTo(q, a, "")
	}
	switch {
	case asked && a.Fault == nil:
		var ans world.VariableAns
		_ = json.Unmarshal(a.Value, &ans) // evaluation has decoded it
		s.Note = sourceOf(name, ans.Source)
		if !v.Sensitive {
			s.Answer.Pointer = "/text"
		}
	case a.Code() == fault.Unread:
		s.Note = "this recording was never asked for it"
	case w.plan.Site.Values[name].Expr != nil:
		r := w.plan.Site.Values[name].Expr.Range()
		s.Note, s.Range = "from the vars file", r
	case v.Default != nil:
		s.Note, s.Range = "its default", v.Default.Range()
	default:
		s.Note, s.Range = "without a value", v.Range
	}
	w.say(depth, s)
}

func sourceOf(name, source string) string {
	switch source {
	case "credential":
		return "from credential prelet.var." + name
	case "cmdline":
		return "from the kernel command line: prelet.var." + name + "="
	case "flag":
		return "from --var " + name
	}
	return "from " + source
}

// output tells what a reference to a stage's output rests on.
func (w *walker) output(addr string, p path, name, shown string, at hcl.Range, depth int) {
	i := w.plan.Site.Stage(addr)
	if i == nil {
		return
	}
	s := Step{Text: name, Value: shown, Ref: "stage." + addr, Range: at}
	again := w.told[name]
	w.told[name] = true
	key := ""
	if i.ForEach != nil && len(p) > 0 {
		key, p = p[0].name, p[1:]
	}
	if len(p) == 1 && p[0].name == "state" {
		s.Note = w.why(i)
		w.say(depth, s)
		return
	}
	if again && i.Type != "detect-hw" {
		s.Note = "as above"
	}
	switch i.Type {
	case "detect-hw":
		w.fact(s, p, depth)
		if last := &w.steps[len(w.steps)-1]; again && last.Note != "" {
			last.Note = "as above"
		}
	case "fetch-config":
		w.fetched(i, key, s, p, depth)
	case "fetch-ca":
		s.Kind = origin.Object
		w.ofKind(&s, world.KindTrust, p.pointer())
		w.say(depth, s)
	case "reserve":
		s.Kind = origin.Policy
		w.say(depth, s)
		if s.Note == "" && len(p) > 0 {
			w.policy(i, p, depth+1)
		}
	case "label", "taint":
		w.say(depth, s)
		if a := i.Body.Attributes[i.Type+"s"]; a != nil && s.Note == "" && len(p) > 0 {
			for _, c := range w.copies(i) {
				if c.key == key {
					w.walk(a.Expr, c.frame(w, a.Expr), p[1:], depth+1)
				}
			}
		}
	default:
		w.say(depth, s)
	}
}

// ofKind names the only answer of a kind.
func (w *walker) ofKind(s *Step, k world.Kind, pointer string) {
	for _, e := range w.entries {
		if e.Kind == k {
			s.Answer = answerTo(e.Question, e.Answer, pointer)
			var t world.TrustAns
			if k == world.KindTrust && json.Unmarshal(e.Answer.Value, &t) == nil && t.Hash != "" {
				s.Note = join(s.Note, "verified by "+t.VerifiedBy+": "+t.Hash)
			}
			s.Note = join(s.Note, told(e.Answer))
			return
		}
	}
}

// told is what is noteworthy of an answer itself.
func told(a world.Answer) string {
	switch {
	case a.Stale != 0:
		return fmt.Sprintf("stale: from generation %d, because %s", a.Stale, strings.TrimSuffix(a.Because, "."))
	case a.Code() == fault.Unread:
		return "this recording was never asked"
	case a.Fault != nil:
		return a.Name() + ": " + a.Why()
	}
	return ""
}

func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

// fact tells one fact of the hardware, with its device and the evidence.
func (w *walker) fact(s Step, p path, depth int) {
	s.Kind = origin.Fact
	if len(p) > 0 && p[0].name == "detectors" {
		s.Kind = origin.Detector
		if len(p) > 1 {
			w.detector(&s, p[1].name, p[2:])
		}
		w.say(depth, s)
		return
	}
	at := p
	if f := w.plan.Facts; f != nil && len(p) > 0 {
		if p[0].name == "gpus" {
			at = path{named("accelerators")}.then(p[1:]...)
			if len(p) > 1 && p[1].number {
				at[1] = numbered(accelerator(f, p[1].index))
			}
		}
		why := whyUnknown(f, at)
		if file := evidence(f, at); why == "" && file != "" {
			why = "read from " + file
		}
		s.Note = join(s.Note, device(f, at), why)
	}
	w.ofKind(&s, world.KindFacts, at.pointer())
	if w.plan.Facts != nil {
		w.overruled(&s, at)
	}
	w.say(depth, s)
}

// overruled names the detector's answer instead of the built-in one, where a detector said it of the device.
func (w *walker) overruled(s *Step, at path) {
	name, address := toldBy(w.plan.Facts, at)
	if name == "" {
		return
	}
	for _, e := range w.entries {
		r, err := world.DetectorOf.Request(e.Question)
		var said world.DetectorAns
		if e.Kind != world.KindDetector || err != nil || r.Name != name || json.Unmarshal(e.Answer.Value, &said) != nil {
			continue
		}
		i := slices.IndexFunc(said.Devices, func(d world.DetectorDevice) bool { return d.Address == address })
		field := at[len(at)-1].name
		switch field { // as detector.v1 names it
		case "memory_gib":
			field = "memory_bytes"
		case "total_vfs", "num_vfs":
			field = "sriov_" + field
		}
		s.Kind, s.Answer = origin.Detector, answerTo(e.Question, e.Answer, fmt.Sprintf("/devices/%d/%s", i, field))
	}
}

// accelerator is the place of GPU n among the accelerators.
func accelerator(f *world.Facts, n int) int {
	for i, a := range f.Accelerators {
		if a.Kind == "gpu" {
			if n == 0 {
				return i
			}
			n--
		}
	}
	return n
}

// device says which device a fact is of.
func device(f *world.Facts, p path) string {
	if len(p) == 0 {
		return ""
	}
	n, one := -1, len(p) > 1 && p[1].number
	if one {
		n = p[1].index
	}
	switch {
	case p[0].name == "accelerators" && n >= 0 && n < len(f.Accelerators):
		a := f.Accelerators[n]
		return address(a.Address, a.Device)
	case p[0].name == "accelerators" && len(p) == 1:
		return fmt.Sprintf("%d among the %s", len(f.Accelerators), counted(len(f.PCI), "%d PCI device", "%d PCI devices"))
	case p[0].name == "nics" && n >= 0 && n < len(f.NICs):
		c := f.NICs[n]
		note := address(c.Address, c.Device)
		if c.Interface != nil {
			note = join(note, "interface "+*c.Interface)
		}
		return note
	case p[0].name == "pci" && n >= 0 && n < len(f.PCI):
		return address(&f.PCI[n].Address, &f.PCI[n].Device)
	case p[0].name == "block_devices" && n >= 0 && n < len(f.BlockDevices):
		return "disk " + f.BlockDevices[n].Name
	}
	return ""
}

func address(addr, dev *string) string {
	if addr == nil {
		return ""
	}
	s := "PCI " + *addr
	if dev != nil {
		s += " (" + *dev + ")"
	}
	return s
}

// whyUnknown is the reason that the facts give for one that is null.
func whyUnknown(f *world.Facts, p path) string {
	want := []string{strings.TrimPrefix(p.String(), ".")}
	if address, face := deviceOf(f, p); address != "" { // reasons name a device by its address, and a port by its interface
		rest := p[2:].String()
		want = []string{p[0].name + "[" + address + "]" + rest, p[0].name + "[" + address + " " + face + "]" + rest}
	}
	for _, u := range f.Unknown {
		for _, name := range want {
			if u.Fact == name || strings.HasSuffix(u.Fact, ".pcie") && strings.HasPrefix(name, u.Fact+".") {
				return "unknown: " + u.Why
			}
		}
	}
	return ""
}

// detector names the answer of one, or the lock that kept it from being asked.
func (w *walker) detector(s *Step, name string, p path) {
	for _, e := range w.entries {
		switch e.Kind {
		case world.KindDetector:
			if r, err := world.DetectorOf.Request(e.Question); err == nil && r.Name == name {
				s.Answer = answerTo(e.Question, e.Answer, p.pointer())
				s.Note = join(s.Note, "detector "+name, told(e.Answer), evidenceOf(e.Answer, p))
			}
		case world.KindLock:
			if r, err := world.LockOf.Request(e.Question); err == nil && r.Name == name && e.Answer.Fault != nil && e.Answer.Code() != fault.Unread {
				s.Answer = answerTo(e.Question, e.Answer, "")
				s.Note = join(s.Note, "detector "+name, told(e.Answer))
			}
		}
	}
}

// evidenceOf is where a detector read a fact or what it made a label of.
func evidenceOf(a world.Answer, p path) string {
	var said world.DetectorAns
	if len(p) < 2 || json.Unmarshal(a.Value, &said) != nil {
		return ""
	}
	at := p[0].name + "." + p[1].name
	if where := said.Evidence[at]; where != "" {
		return "read from " + where
	}
	if why := said.Unknown[at]; why != "" {
		return "unknown: " + why
	}
	return ""
}

// fetched tells what a fetch-config brought: an object of the cluster, or a file.
func (w *walker) fetched(i *site.Instance, key string, s Step, p path, depth int) {
	s.Kind = origin.Object
	note := ""
	for _, c := range w.copies(i) {
		if c.key != key {
			continue
		}
		if what, ok := w.argument(i, c, "config_map"); ok {
			note = w.objectOf(&s, what, p)
		} else if what, ok := w.argument(i, c, "file"); ok {
			for _, e := range w.entries {
				if r, err := world.File.Request(e.Question); e.Kind == world.KindFile && err == nil && r.Path == what {
					s.Answer = answerTo(e.Question, e.Answer, "/text")
					note = join("file "+what+" of the node", told(e.Answer))
				}
			}
		}
	}
	if s.Note == "as above" {
		w.say(depth, s)
		return
	}
	s.Note = join(note, w.failed(i))
	w.say(depth, s)
	for _, c := range w.copies(i) { // what chose the object
		for _, n := range []string{"config_map", "file"} {
			if a := i.Body.Attributes[n]; a != nil && c.key == key && !isLiteral(a.Expr) {
				v, note := w.at(a.Expr, c.frame(w, a.Expr), nil)
				w.say(depth+1, Step{Text: n + " = " + w.text(a.Expr), Value: v, Note: note, Range: a.Expr.Range()})
				w.walk(a.Expr, c.frame(w, a.Expr), nil, depth+2)
			}
		}
	}
}

func (w *walker) objectOf(s *Step, what string, p path) string {
	ns, name, _ := strings.Cut(what, "/")
	for _, e := range w.entries {
		if e.Kind != world.KindObject {
			continue
		}
		r, err := world.Object.Request(e.Question)
		if err != nil || r.Namespace != ns || r.Name != name {
			continue
		}
		s.Answer = answerTo(e.Question, e.Answer, p.pointer())
		note := "ConfigMap " + what
		var o world.ObjectAns
		if json.Unmarshal(e.Answer.Value, &o) == nil && o.ResourceVersion != "" {
			note += ", resource version " + o.ResourceVersion
		}
		return join(note, told(e.Answer))
	}
	return "ConfigMap " + what
}

// argument is an argument of a stage as text.
func (w *walker) argument(i *site.Instance, c copyOf, name string) (string, bool) {
	a := i.Body.Attributes[name]
	if a == nil {
		return "", false
	}
	v, d := w.value(a.Expr, c.frame(w, a.Expr))
	u, secrets, _ := value.Plain(v)
	if d != nil || len(secrets) > 0 || !u.IsKnown() || u.IsNull() || u.Type() != cty.String {
		return "", false
	}
	return u.AsString(), true
}

// question tells a call that asks: file, fileexists, credential.
func (w *walker) question(x *hclsyntax.FunctionCallExpr, f *frame, p path, depth int) {
	v, note := w.at(x, f, p)
	s := Step{Text: w.text(x), Value: v, Note: note, Range: x.Range(), Ref: x.Name}
	arg := ""
	if len(x.Args) == 1 {
		if a, d := w.value(x.Args[0], f); d == nil {
			if u, _, _ := value.Plain(a); u.IsKnown() && !u.IsNull() && u.Type() == cty.String {
				arg = u.AsString()
			}
		}
	}
	q, pointer := world.File.Question(world.FileReq{Path: arg}), "/text"
	if x.Name == "credential" {
		q, pointer = world.Credential.Question(world.CredentialReq{Name: arg}), ""
		s.Value = sensitive
	}
	if a, ok := w.answered(q); ok {
		if x.Name == "fileexists" || a.Fault != nil {
			pointer = ""
		}
		s.Answer = answerTo(q, a, pointer)
		var c world.CredentialAns
		if x.Name == "credential" && json.Unmarshal(a.Value, &c) == nil && c.Source != "" {
			s.Note = join(s.Note, "from "+c.Source)
		}
		if s.Note == "" {
			s.Note = told(a)
		}
	}
	w.say(depth, s)
	for _, a := range x.Args {
		w.walk(a, f, nil, depth+1)
	}
}

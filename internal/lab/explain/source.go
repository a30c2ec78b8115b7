package explain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/lang"
)

// findAnswer returns the tape's answer to a question; ok is false if the question was not asked.
func (w *walker) findAnswer(q tape.Question) (found tape.Entry, ok bool) {
	for _, e := range w.entries {
		if e.Question == q {
			return e, true
		}
	}

	return found, false
}

// setAnswer sets the answer of a link, and adds to its note why the answer has no value or is an old one.
func (s *Link) setAnswer(e tape.Entry, pointer string) {
	a := e.Answer
	s.Answer = &TapePlace{
		Kind:    e.Kind,
		Args:    json.RawMessage(e.Args),
		Pointer: pointer,
		Fail:    a.Name(),
		Stale:   a.Stale,
	}

	why := ""
	switch {
	case a.Stale != 0:
		why = fmt.Sprintf(
			"stale: from generation %d, because %s",
			a.Stale,
			strings.TrimSuffix(a.Because, "."),
		)
	case a.Fault != nil:
		why = a.Name() + ": " + a.Why()
		s.Answer.Pointer = ""
	}
	s.Note = join(s.Note, why)
}

// addVariable adds the link of a variable, with the place that its value comes from.
func (w *walker) addVariable(s Link, name string, depth int) {
	v := w.plan.Site.Variables[name]
	if v == nil {
		return
	}

	s.Kind = origin.Variable
	s.Ref = "var." + name
	q := tape.Variable.Question(tape.VariableReq{Name: name, Sensitive: v.Sensitive})
	e, isAsked := w.findAnswer(q)
	var given tape.VariableAns
	switch {
	case isAsked && json.Unmarshal(e.Answer.Value, &given) == nil:
		pointer := "/text"
		if v.Sensitive {
			pointer = ""
		}
		s.Note = "from " + given.Source
		s.setAnswer(e, pointer)
	case w.plan.Site.Values[name] != nil:
		s.Note, s.Range = "from the vars file", w.plan.Site.Values[name].Range()
	case v.Default != nil:
		s.Note, s.Range = "its default", v.Default.Range()
	default:
		s.Note = "without a value"
		s.Range = v.Range
	}
	w.add(depth, s)
}

// addOutput adds the link of a stage's output, and its inputs. The path is that of `stage`: TYPE, NAME, output, …
func (w *walker) addOutput(s Link, p path, depth int) {
	if len(p) < 2 {
		return
	}
	i := w.plan.Site.Stage(p[0] + "." + p[1])
	if i == nil {
		return
	}

	s.Ref = "stage." + i.Addr()
	s.Note = w.describeFailure(i)
	p = p[2:]
	switch {
	case !w.isFirst("output " + s.Text):
		s.Note = "as above"
		w.add(depth, s)
	case len(p) == 1 && p[0] == "state":
		w.add(depth, s)
	case i.Type == "detect-hw":
		w.setFact(&s, p)
		w.add(depth, s)
	case i.Type == "fetch-config":
		w.addFetched(i, s, p, depth)
	case i.Type == "fetch-ca":
		w.addTrust(s, tape.Pointer(p...), depth)
	default:
		w.add(depth, s)
		w.addComputed(i, p, depth+1)
	}
}

// addComputed adds the parts of the plan that an output is based on: a label of `labels`, or the results of reserve.
func (w *walker) addComputed(i *lang.Instance, p path, depth int) {
	r := w.plan.Node.Reserved
	switch {
	case i.Type == "reserve" && r != nil:
		w.addBasis(entry{origins: r.Origins}, depth)
	case i.Type == Label && len(p) == 2:
		w.addPartOfNode(path{"labels", p[1]}, depth)
	}
}

// addTrust adds the cluster's CA, with the answer that it comes from.
func (w *walker) addTrust(s Link, pointer string, depth int) {
	s.Kind = origin.Object
	for _, e := range w.entries {
		var t tape.TrustAns
		if e.Kind != tape.KindTrust {
			continue
		}
		if json.Unmarshal(e.Answer.Value, &t) == nil && t.Hash != "" {
			s.Note = "verified by " + t.VerifiedBy + ": " + t.Hash
		}
		if t.Assumed {
			s.Note = "assumed: ca.crt of --objects, which stands for the " + t.VerifiedBy + ": " + t.Hash
		}
		s.setAnswer(e, pointer)
	}
	w.add(depth, s)
}

// setFact sets the answer that a fact of the hardware comes from, its device and the file that it was read from.
func (w *walker) setFact(s *Link, p path) {
	s.Kind = origin.Fact
	if len(p) > 1 && p[0] == "detectors" {
		s.Kind = origin.Detector
		w.setDetectorFact(s, p[1], p[2:])
		return
	}

	f := w.plan.Facts
	if f != nil && len(p) > 0 {
		p = factPath(f, p)
		d := findDevice(f, p)
		why := prefixed("read from ", d.evidence(f, p))
		if s.Value == "null" {
			why = cmp.Or(prefixed("unknown: ", d.whyUnknown(f, p)), why)
		}
		s.Note = join(d.String(), why)
	}
	for _, e := range w.entries {
		if e.Kind == tape.KindHardware {
			s.setAnswer(e, tape.Pointer(p...))
		}
	}
}

// eachDetector calls each with the tape's entries about detectors, by name: the report, or the lock if that kept the
// detector from running.
func (w *walker) eachDetector(each func(name string, e tape.Entry, report tape.DetectorAns)) {
	for _, e := range w.entries {
		var request struct{ Name string } // of a detector or its lock
		_ = json.Unmarshal([]byte(e.Args), &request)
		hasFailed := e.Answer.Fault != nil && e.Answer.Code() != fault.Unread
		if e.Kind == tape.KindDetector || e.Kind == tape.KindLock && hasFailed {
			var report tape.DetectorAns
			_ = json.Unmarshal(e.Answer.Value, &report)
			each(request.Name, e, report)
		}
	}
}

// setDetectorFact sets the answer of a detector, and where it read the fact.
func (w *walker) setDetectorFact(s *Link, wanted string, p path) {
	w.eachDetector(func(name string, e tape.Entry, report tape.DetectorAns) {
		if name != wanted {
			return
		}
		s.Note = "detector " + name
		if len(p) > 1 {
			field := p[0] + "." + p[1]
			s.Note = join(s.Note, prefixed("read from ", report.Evidence[field]),
				prefixed("unknown: ", report.Unknown[field]))
		}
		s.setAnswer(e, tape.Pointer(p...))
	})
}

// addRecommended adds which detectors recommend a label.
func (w *walker) addRecommended(key string, depth int) {
	w.eachDetector(func(name string, e tape.Entry, report tape.DetectorAns) {
		s := Link{
			Kind: origin.Detector,
			Text: "detector " + name,
			Ref:  "detector." + name,
		}
		pointer := "/labels"
		v, isRecommended := report.Labels[key]
		switch {
		case isRecommended:
			pointer += tape.Pointer(key)
			s.Value = value.Quote(v)
			s.Note = "recommends it" + prefixed(": ", report.Evidence["labels."+key])
		case e.Answer.Fault == nil:
			s.Note = "does not recommend it"
		}
		s.setAnswer(e, pointer)
		w.add(depth, s)
	})
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}

	return prefix + s
}

// addFetched adds the link of an object or a file that a fetch-config stage read, and the references in its name.
func (w *walker) addFetched(i *lang.Instance, s Link, p path, depth int) {
	key := ""
	if i.ForEach != nil && len(p) > 0 {
		key = p[0]
		p = p[1:]
	}

	s.Kind = origin.Object
	for _, c := range w.listCopies(i) {
		if c.Key != key {
			continue
		}
		for _, argument := range []string{"config_map", "file"} {
			a := i.Body.Attributes[argument]
			if a == nil {
				continue
			}
			name, _ := w.lookUp(a.Expr, c.Scope)
			w.setFetched(&s, textOf(name), p)
			w.add(depth, s)
			w.addOperands(a.Expr, c.Scope, depth+1)
		}
	}
}

// setFetched sets the answer with a ConfigMap or a file.
func (w *walker) setFetched(s *Link, name string, p path) {
	for _, e := range w.entries {
		object, _ := tape.Object.Request(e.Question)
		file, _ := tape.File.Request(e.Question)
		switch {
		case e.Kind == tape.KindObject && object.Namespace+"/"+object.Name == name:
			var a tape.ObjectAns
			_ = json.Unmarshal(e.Answer.Value, &a)
			s.Note = "ConfigMap " + name + prefixed(", resource version ", a.ResourceVersion)
			s.setAnswer(e, tape.Pointer(p...))
		case e.Kind == tape.KindFile && file.Path == name:
			s.Note = "file " + name + " of the node"
			s.setAnswer(e, "/text")
		}
	}
}

// addRead adds the link of a call that reads a file, whether it exists, or a credential.
func (w *walker) addRead(x *hclsyntax.FunctionCallExpr, c eval.Scope, depth int) {
	s := Link{Text: w.formatSource(x), Ref: x.Name}
	name := ""
	if len(x.Args) == 1 {
		v, _ := w.lookUp(x.Args[0], c)
		name = textOf(v)
	}

	q := tape.File.Question(tape.FileReq{Path: name})
	pointer := ""
	switch x.Name {
	case "credential":
		q = tape.Credential.Question(tape.CredentialReq{Name: name})
	case "file":
		pointer = "/text"
	}
	if e, ok := w.findAnswer(q); ok {
		s.setAnswer(e, pointer)
	}
	w.addValue(depth, s, x, c)
	for _, a := range x.Args {
		w.addOperands(a, c, depth+1)
	}
}

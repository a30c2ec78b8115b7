package importer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/platform/apiaddress"
	"github.com/prelet/prelet/schema"
)

const (
	defaultVersion = "1.11" // of the script
	maxInterface   = 15     // IFNAMSIZ of linux/if.h without the zero byte
)

// config is an init-config as the script understood it.
type config struct {
	Server    string  // https://host:port
	Version   string  // after kubelet-config- in the ConfigMap's name
	Interface string  // "": the base's address is not changed
	Labels    []label // each key once, in the order of the text
	Taints    []taint // each key and effect once
	CPUs      string  // that remain for pods; "": the base's reservation is not changed
	Memory    string  // "10%"; "": as CPUs
}

type label struct {
	Key, Value string
	at         hcl.Range
}

type taint struct {
	kubelet.Taint
	at hcl.Range
}

// reader turns JSON into a config and reports entries that cannot be imported.
type reader struct {
	src     []byte
	name    string            // of the imported file
	sources map[string][]byte // without secrets, by file
	places  map[string]hcl.Range
	values  string // of the site's variables, for its check
	diags   hcl.Diagnostics
}

// add adds a diagnostic. One about a field that is missing, so without a place, gets the begin of the file.
func (r *reader) add(d *hcl.Diagnostic) {
	if d.Subject == nil || d.Subject.Filename == "" {
		start := r.start()
		d.Subject = &start
	}
	r.diags = append(r.diags, d)
}

// readObject returns the values of an object's known keys. Of a duplicate key the last one counts, as in Python.
func (r *reader) readObject(n *lang.JSONNode, what string, known ...string) map[string]*lang.JSONNode {
	out := map[string]*lang.JSONNode{}

	for i, key := range n.Keys {
		if !slices.Contains(known, key.Text) {
			r.add(origin.Warning(fault.UnknownArgument, key.Range,
				fmt.Sprintf("%q is left out: the script does not read it", shorten(key.Text, 28)),
				"It does not change the site. %s", schema.Suggest(key.Text, known)))
			continue
		}
		if _, isDuplicate := out[key.Text]; isDuplicate {
			r.add(
				origin.Note(
					fault.Duplicate,
					key.Range,
					fmt.Sprintf("%s is given twice in %s", key.Text, what),
					"The last one counts, as it did for the script.",
				),
			)
		}
		out[key.Text] = n.Items[i]
	}

	return out
}

// readText returns the text of a string, or of a number if numbers are allowed. Null, "" and a missing key are "".
func (r *reader) readText(n *lang.JSONNode, key string, allowsNumbers bool) string {
	switch {
	case n == nil || n.Kind == lang.JSONNull:
		return ""
	case n.Kind == lang.JSONString:
		return strings.TrimSpace(n.Text)
	case n.Kind == lang.JSONNumber && allowsNumbers:
		return n.Text
	}

	r.add(origin.Error(fault.WrongType, n.Range, "Wrong type for "+key, "A string is needed, not %s.", n.Kind))

	return ""
}

func (r *reader) readConfig(doc *lang.JSONNode) config {
	if doc.Kind != lang.JSONObject {
		r.add(origin.Error(fault.WrongType, doc.Range, "This is not an init-config",
			"An object is needed, as {\"apiserver\": \"HOST:6443\"}, not %s.", doc.Kind))

		return config{}
	}

	m := r.readObject(doc, "the file",
		"apiserver", "k8s_version", "listenInterface", "nodeLabels", "nodeTaints", "resources")
	c := config{
		Server:    r.readServer(m["apiserver"], doc),
		Version:   r.readVersion(m["k8s_version"]),
		Interface: r.readInterface(m["listenInterface"]),
		Labels:    r.readLabels(m["nodeLabels"]),
		Taints:    r.readTaints(m["nodeTaints"]),
	}

	res := m["resources"]
	switch {
	case res == nil || res.Kind == lang.JSONNull:
	case res.Kind == lang.JSONObject:
		m := r.readObject(res, "resources", "cpuRemained", "memoryReserved")
		c.CPUs = r.readCPUs(m["cpuRemained"])
		c.Memory = r.readMemory(m["memoryReserved"])
	default:
		r.add(origin.Error(
			fault.WrongType,
			res.Range,
			"Wrong type for resources",
			"An object is needed, as {\"cpuRemained\": 8, \"memoryReserved\": \"10%%\"}, not %s.",
			res.Kind,
		))
	}

	return c
}

// readServer reads host:port, or a URL with its implied port.
func (r *reader) readServer(n, doc *lang.JSONNode) string {
	before := len(r.diags)
	s := r.readText(n, "apiserver", false)
	if s != "" {
		server, err := apiaddress.Parse(s)
		if err != nil {
			r.add(origin.Error(fault.WrongType, n.Range, "apiserver cannot be used", serverHelp))
			return ""
		}

		return "https://" + server
	}

	if len(r.diags) == before {
		at := hcl.Range{
			Filename: doc.Range.Filename,
			Start:    doc.Range.Start,
			End:      doc.Range.Start,
		}
		if n != nil {
			at = n.Range
		}
		r.add(origin.Error(fault.MissingArgument, at, "No API server", "Write \"apiserver\": \"HOST:6443\"."))
	}

	return ""
}

func (r *reader) readVersion(n *lang.JSONNode) string {
	s := r.readText(n, "k8s_version", true)
	if s == "" {
		return defaultVersion
	}

	if n.Kind == lang.JSONNumber {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || strconv.FormatFloat(f, 'f', -1, 64) != s {
			r.add(
				origin.Error(
					fault.WrongType,
					n.Range,
					"k8s_version is a number that is not what it looks like",
					"To JSON, %s is another text. Write it in quotes: %q.",
					s,
					s,
				),
			)

			return ""
		}
		r.add(origin.Note(fault.WrongType, n.Range, "k8s_version is a number",
			"It was read as %q. Quotes keep 1.20 from being 1.2.", s))
	}

	if e := content.IsDNS1123Subdomain("kubelet-config-" + s); len(e) > 0 {
		r.add(origin.Error(fault.WrongType, n.Range, "k8s_version cannot be used",
			"Invalid ConfigMap name kubelet-config-%s: %s.", s, strings.Join(e, "; ")))
	}

	return s
}

func (r *reader) readInterface(n *lang.JSONNode) string {
	s := r.readText(n, "listenInterface", false)
	if len(s) > maxInterface || strings.ContainsAny(s, "/ \t\n") {
		r.add(origin.Error(
			fault.WrongType,
			n.Range,
			"listenInterface is not an interface",
			"The name of an interface has at most %d characters and no space or slash.",
			maxInterface,
		))
	}

	return s
}

func (r *reader) readCPUs(n *lang.JSONNode) string {
	s := r.readText(n, "cpuRemained", true)
	if s == "" {
		return ""
	}

	cpus, err := strconv.ParseUint(s, 10, 16)
	switch {
	case err != nil:
		r.add(origin.Error(fault.WrongType, n.Range, "cpuRemained is not a number of CPUs",
			"%s: write a whole number, of the CPUs that pods may use.", shorten(s, 8)))

		return ""
	case cpus == 0:
		r.add(origin.Warning(fault.ReserveRefused, n.Range, "cpuRemained is left out: it is 0",
			"It would leave no CPU to pods. The base's reservation of CPU is not changed; "+
				"write remainder { cpus = … } in the site to change it."))

		return ""
	}

	return strconv.FormatUint(cpus, 10)
}

func (r *reader) readMemory(n *lang.JSONNode) string {
	s := r.readText(n, "memoryReserved", true)
	if s == "" {
		return ""
	}

	percent, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(s, "%")), 10, 8)
	switch {
	case err != nil || percent > 100:
		r.add(origin.Error(fault.WrongType, n.Range, "memoryReserved is not a percentage",
			"%s: write a whole number from 0 to 100 and %%, as \"10%%\".", shorten(s, 8)))

		return ""
	case percent == 100:
		r.add(
			origin.Warning(
				fault.ReserveRefused,
				n.Range,
				"memoryReserved is left out: it is 100%",
				"It would leave no memory to pods. The base's reservation of memory is not changed; "+
					"write remainder { memory = … } in the site to change it.",
			),
		)

		return ""
	case !strings.HasSuffix(s, "%"):
		r.add(origin.Note(fault.WrongType, n.Range, "memoryReserved has no %", "It was read as %d%%.", percent))
	}

	return fmt.Sprintf("%d%%", percent)
}

// item is an element of a list in a string, with its place.
type item struct {
	text string
	at   hcl.Range
}

// readItems splits "a,b". An element that is written with escapes has the place of the whole string.
func (r *reader) readItems(n *lang.JSONNode, key string) (out []item) {
	list := r.readText(n, key, false)
	if list == "" {
		return nil
	}

	from := n.Range.Start.Byte
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}

		at := n.Range
		if i := strings.Index(string(r.src[from:at.End.Byte]), text); i >= 0 {
			from += i
			at.Start = r.position(n, from)
			from += len(text)
			at.End = r.position(n, from)
		}
		out = append(out, item{text, at})
	}

	return out
}

// position returns the position of an offset in a string, which JSON writes in one line.
func (r *reader) position(n *lang.JSONNode, offset int) hcl.Pos {
	p := n.Range.Start
	p.Column += utf8.RuneCount(r.src[p.Byte:offset])
	p.Byte = offset

	return p
}

func (r *reader) readLabels(n *lang.JSONNode) (out []label) {
	for _, i := range r.readItems(n, "nodeLabels") {
		key, val, isPair := strings.Cut(i.text, "=")
		l := label{strings.TrimSpace(key), strings.TrimSpace(val), i.at}

		if err := kubelet.CheckLabel(l.Key, l.Value); err != nil {
			r.add(origin.Warning(fault.LabelInvalid, i.at, "A label is left out: no cluster takes it", "%s.", err))
			continue
		}
		if err := kubelet.CheckNodeKey(l.Key, ""); err != nil {
			r.add(origin.Warning(
				fault.LabelForbidden,
				i.at,
				"A label is left out: kubelets from 1.16 on refuse to start with it",
				"%s. For older ones it can be in --node-labels of the ConfigMap's default-kubelet.",
				err,
			))
			continue
		}
		if !isPair {
			r.add(origin.Note(fault.LabelInvalid, i.at, "Label "+l.Key+" has no value",
				"The site sets the empty value: %s = \"\".", l.Key))
		}

		same := slices.IndexFunc(out, func(o label) bool {
			return o.Key == l.Key
		})
		if same < 0 {
			out = append(out, l)
			continue
		}
		if out[same].Value != l.Value {
			r.add(origin.Note(fault.Duplicate, i.at, "Label "+l.Key+" is given twice",
				"It is %q and %q, and the script passed both to the kubelet, in random order. "+
					"The site has the last one.",
				out[same].Value, l.Value))
		}
		out[same] = l
	}

	return out
}

func (r *reader) readTaints(n *lang.JSONNode) (out []taint) {
	for _, i := range r.readItems(n, "nodeTaints") {
		t, err := kubelet.ParseTaint(i.text)
		if err != nil {
			r.add(origin.Warning(fault.TaintInvalid, i.at, "A taint is left out: no kubelet takes it", "%s.", err))
			continue
		}

		same := slices.IndexFunc(out, func(o taint) bool {
			return o.Key == t.Key && o.Effect == t.Effect
		})
		if same < 0 {
			out = append(out, taint{t, i.at})
			continue
		}
		if out[same].Value != t.Value {
			r.add(origin.Note(
				fault.Duplicate,
				i.at,
				"Taint "+t.Key+" is given twice",
				"It is %s and %s, and a node can have one of them. The site has the last one.",
				out[same].Taint,
				t,
			))
		}
		out[same] = taint{t, i.at}
	}

	return out
}

package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/platform/apiaddress"
	"github.com/prelet/prelet/schema"
)

const (
	defaultVersion = "1.11" // of the script
	maxInterface   = 15     // IFNAMSIZ of linux/if.h without the zero byte
)

// config is an init-config as the script understood it.
type config struct {
	Server    string          // https://host:port
	Version   string          // after kubelet-config- in the ConfigMap's name
	Interface string          // "": the base's address is not changed
	Labels    []label         // each key once, in the order of the text
	Taints    []kubelet.Taint // each key and effect once
	CPUs      string          // that remain for pods; "": the base's reservation is not changed
	Memory    string          // "10%"; "": as CPUs
}

type label struct{ Key, Value string }

// importInitConfig imports the init-config of the script.
func (r *reader) importInitConfig(source string, src []byte, o Options) Result {
	doc, err := decodeInitConfig(src)
	if err != nil {
		r.refuse(fault.Syntax, "Invalid JSON", "%s. JSON has neither comments nor trailing commas.", err)
		return Result{}
	}
	object, isObject := doc.(map[string]any)
	if !isObject {
		r.refuse(fault.WrongType, "This is not an init-config",
			"An object is needed, as {\"apiserver\": \"HOST:6443\"}, not %s.", kindOf(doc))
		return Result{}
	}

	p := page{config: r.readConfig(object), Source: source, Hashes: o.Hashes, Credential: o.Credential}
	r.resolve(&p)

	return Result{
		Text:        r.finish(siteTemplate, p, o, true),
		From:        "init-k8s-node.py",
		Credential:  o.Credential,
		Differences: p.differences(),
		Open:        p.open(),
	}
}

// decodeInitConfig decodes a text. Of a duplicate key the last one counts, as in Python.
func decodeInitConfig(src []byte) (doc any, err error) {
	if !utf8.Valid(src) {
		return nil, errors.New("this is not UTF-8")
	}

	dec := json.NewDecoder(bytes.NewReader(src))
	dec.UseNumber()
	err = dec.Decode(&doc)
	if err == nil {
		if _, more := dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is text after the object")
		}
	}

	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		line := 1 + bytes.Count(src[:min(int(syntax.Offset), len(src))], []byte("\n"))
		err = fmt.Errorf("line %d: %w", line, err)
	}

	return doc, err
}

// kindOf returns the kind of a JSON value, in words for messages.
func kindOf(v any) string {
	switch v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case bool:
		return "true or false"
	}

	return "null"
}

// readObject reports unknown keys of an object.
func (r *reader) readObject(object map[string]any, known ...string) {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(known, key) {
			r.warn(fault.UnknownArgument, fmt.Sprintf("%q is left out: the script does not read it", shorten(key, 28)),
				"It does not change the site. %s", schema.Suggest(key, known))
		}
	}
}

// readText returns the text of a string, or of a number if numbers are allowed. Null, "" and a missing key are "".
func (r *reader) readText(object map[string]any, key string, allowsNumbers bool) string {
	switch v := object[key].(type) {
	case nil:
		return ""
	case string:
		return strings.TrimSpace(v)
	case json.Number:
		if allowsNumbers {
			return v.String()
		}
	}

	r.refuse(fault.WrongType, "Wrong type for "+key, "A string is needed, not %s.", kindOf(object[key]))

	return ""
}

func (r *reader) readConfig(object map[string]any) config {
	r.readObject(object, "apiserver", "k8s_version", "listenInterface", "nodeLabels", "nodeTaints", "resources")
	c := config{
		Server:    r.readServer(object),
		Version:   r.readVersion(object),
		Interface: r.readInterface(object),
		Labels:    r.readLabels(object),
		Taints:    r.readTaints(object),
	}

	switch resources := object["resources"].(type) {
	case nil:
	case map[string]any:
		r.readObject(resources, "cpuRemained", "memoryReserved")
		c.CPUs = r.readCPUs(resources)
		c.Memory = r.readMemory(resources)
	default:
		r.refuse(fault.WrongType, "Wrong type for resources",
			"An object is needed, as {\"cpuRemained\": 8, \"memoryReserved\": \"10%%\"}, not %s.", kindOf(resources))
	}

	return c
}

// readServer reads host:port, or a URL with its implied port.
func (r *reader) readServer(object map[string]any) string {
	const key = "apiserver"
	s := r.readText(object, key, false)
	if s == "" {
		if v := object[key]; v == nil || v == "" {
			r.refuse(fault.MissingArgument, "No API server", "Write \"apiserver\": \"HOST:6443\".")
		}
		return ""
	}

	server, err := apiaddress.Parse(s)
	if err != nil {
		r.refuse(fault.WrongType, "apiserver cannot be used", serverHelp)
		return ""
	}

	return "https://" + server
}

func (r *reader) readVersion(object map[string]any) string {
	s := r.readText(object, "k8s_version", true)
	if s == "" {
		return defaultVersion
	}

	if _, isNumber := object["k8s_version"].(json.Number); isNumber {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || strconv.FormatFloat(f, 'f', -1, 64) != s {
			r.refuse(fault.WrongType, "k8s_version is a number that is not what it looks like",
				"To JSON, %s is another text. Write it in quotes: %q.", s, s)
			return ""
		}
		r.note(fault.WrongType, "k8s_version is a number", "It was read as %q. Quotes keep 1.20 from being 1.2.", s)
	}

	if e := content.IsDNS1123Subdomain("kubelet-config-" + s); len(e) > 0 {
		r.refuse(fault.WrongType, "k8s_version cannot be used",
			"Invalid ConfigMap name kubelet-config-%s: %s.", s, strings.Join(e, "; "))
	}

	return s
}

func (r *reader) readInterface(object map[string]any) string {
	s := r.readText(object, "listenInterface", false)
	if len(s) > maxInterface || strings.ContainsAny(s, "/ \t\n") {
		r.refuse(fault.WrongType, "listenInterface is not an interface",
			"The name of an interface has at most %d characters and no space or slash.", maxInterface)
	}

	return s
}

func (r *reader) readCPUs(resources map[string]any) string {
	s := r.readText(resources, "cpuRemained", true)
	if s == "" {
		return ""
	}

	cpus, err := strconv.ParseUint(s, 10, 16)
	switch {
	case err != nil:
		r.refuse(fault.WrongType, "cpuRemained is not a number of CPUs",
			"%s: write a whole number, of the CPUs that pods may use.", shorten(s, 8))
		return ""
	case cpus == 0:
		r.warn(fault.ReserveRefused, "cpuRemained is left out: it is 0",
			"It would leave no CPU to pods. The base's reservation of CPU is not changed; "+
				"write remainder { cpus = … } in the site to change it.")
		return ""
	}

	return strconv.FormatUint(cpus, 10)
}

func (r *reader) readMemory(resources map[string]any) string {
	s := r.readText(resources, "memoryReserved", true)
	if s == "" {
		return ""
	}

	percent, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(s, "%")), 10, 8)
	switch {
	case err != nil || percent > 100:
		r.refuse(fault.WrongType, "memoryReserved is not a percentage",
			"%s: write a whole number from 0 to 100 and %%, as \"10%%\".", shorten(s, 8))
		return ""
	case percent == 100:
		r.warn(fault.ReserveRefused, "memoryReserved is left out: it is 100%",
			"It would leave no memory to pods. The base's reservation of memory is not changed; "+
				"write remainder { memory = … } in the site to change it.")
		return ""
	case !strings.HasSuffix(s, "%"):
		r.note(fault.WrongType, "memoryReserved has no %", "It was read as %d%%.", percent)
	}

	return fmt.Sprintf("%d%%", percent)
}

// splitList splits "a, b" without empty items.
func splitList(list string) (items []string) {
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}

	return items
}

func (r *reader) readLabels(object map[string]any) (out []label) {
	for _, text := range splitList(r.readText(object, "nodeLabels", false)) {
		key, val, isPair := strings.Cut(text, "=")
		l := label{strings.TrimSpace(key), strings.TrimSpace(val)}

		if err := kubelet.CheckLabel(l.Key, l.Value); err != nil {
			r.warn(fault.LabelInvalid, "A label is left out: no cluster takes it", "%s.", err)
			continue
		}
		if err := kubelet.CheckNodeKey(l.Key, ""); err != nil {
			r.warn(fault.LabelForbidden, "A label is left out: kubelets from 1.16 on refuse to start with it",
				"%s. For older ones it can be in --node-labels of the ConfigMap's default-kubelet.", err)
			continue
		}
		if !isPair {
			r.note(fault.LabelInvalid, "Label "+l.Key+" has no value",
				"The site sets the empty value: %s = \"\".", l.Key)
		}

		same := slices.IndexFunc(out, func(o label) bool { return o.Key == l.Key })
		if same < 0 {
			out = append(out, l)
			continue
		}
		if out[same].Value != l.Value {
			r.note(fault.Duplicate, "Label "+l.Key+" is given twice",
				"It is %q and %q, and the script passed both to the kubelet, in random order. The site has the last "+
					"one.",
				out[same].Value, l.Value)
		}
		out[same] = l
	}

	return out
}

func (r *reader) readTaints(object map[string]any) (out []kubelet.Taint) {
	for _, text := range splitList(r.readText(object, "nodeTaints", false)) {
		t, err := kubelet.ParseTaint(text)
		if err != nil {
			r.warn(fault.TaintInvalid, "A taint is left out: no kubelet takes it", "%s.", err)
			continue
		}

		same := slices.IndexFunc(out, func(o kubelet.Taint) bool { return o.Key == t.Key && o.Effect == t.Effect })
		if same < 0 {
			out = append(out, t)
			continue
		}
		if out[same].Value != t.Value {
			r.note(fault.Duplicate, "Taint "+t.Key+" is given twice",
				"It is %s and %s, and a node can have one of them. The site has the last one.", out[same], t)
		}
		out[same] = t
	}

	return out
}

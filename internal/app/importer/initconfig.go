package importer

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/schema"
)

// config is what an init-config says, as the script understood it.
type config struct {
	Server    string  // https://host:port, or host:port with https:// before it
	Version   string  // what follows kubelet-config- in the ConfigMap's name
	Interface string  // "": the address is left as the base has it
	Labels    []label // each key once, in the order of the text
	Taints    []taint // each key and effect once
	CPUs      string  // that remain for pods; "": CPU is left as the base has it
	Memory    string  // "10%"; "": memory is left as the base has it
}

type label struct {
	Key, Value string
	at         hcl.Range
}

type taint struct {
	kubelet.Taint
	at hcl.Range
}

// defaultVersion is the script's.
const defaultVersion = "1.11"

// reader turns JSON into a config, and says what it could not carry over.
type reader struct {
	src   []byte
	diags hcl.Diagnostics
}

func (r *reader) fail(c fault.Code, at hcl.Range, summary, detail string, args ...any) {
	r.diags = append(r.diags, origin.Error(c, at, summary, "%s", fmt.Sprintf(detail, args...)))
}

// leave says what is not in the site though it stands in init-config.
func (r *reader) leave(c fault.Code, at hcl.Range, summary, detail string, args ...any) {
	r.diags = append(r.diags, origin.Warning(c, at, summary, "%s", fmt.Sprintf(detail, args...)))
}

// note tells what is in the site otherwise than in init-config.
func (r *reader) note(c fault.Code, at hcl.Range, summary, detail string, args ...any) {
	r.diags = append(r.diags, origin.Note(c, at, summary, "%s", fmt.Sprintf(detail, args...)))
}

// object gives the values of an object's known keys. Of a key given twice the last counts, as in Python.
func (r *reader) object(v value, what string, known ...string) map[string]value {
	out := map[string]value{}
	for _, m := range v.members {
		if !slices.Contains(known, m.key) {
			r.leave(fault.UnknownArgument, m.at, fmt.Sprintf("%s is left out: the script does not read it", quote(m.key)), "Nothing of the site comes from it. %s", schema.Suggest(m.key, known))
			continue
		}
		if _, twice := out[m.key]; twice {
			r.note(fault.Duplicate, m.at, fmt.Sprintf("%s is given twice in %s", m.key, what), "The last one counts, as it did for the script.")
		}
		out[m.key] = m.value
	}
	return out
}

// text reads a string; a number counts as its text. Null, "" and a key that is not there are the empty text.
func (r *reader) text(v value, key string, numbers bool) string {
	switch {
	case v.kind == isString:
		return strings.TrimSpace(v.text)
	case v.kind == isNumber && numbers:
		return v.text
	case v.kind != "" && v.kind != isNull:
		r.fail(fault.WrongType, v.at, "Wrong type for "+key, "A string is needed, not %s.", v.kind)
	}
	return ""
}

func (r *reader) config(doc value) config {
	m := r.object(doc, "the file", "apiserver", "k8s_version", "listenInterface", "nodeLabels", "nodeTaints", "resources")
	c := config{
		Server:    r.server(m["apiserver"], doc.at),
		Version:   r.version(m["k8s_version"]),
		Interface: r.link(m["listenInterface"]),
		Labels:    r.labels(m["nodeLabels"]),
		Taints:    r.taints(m["nodeTaints"]),
	}
	switch res := m["resources"]; res.kind {
	case isObject:
		c.CPUs, c.Memory = r.resources(res)
	case "", isNull:
	default:
		r.fail(fault.WrongType, res.at, "Wrong type for resources", "An object is needed, as {\"cpuRemained\": 8, \"memoryReserved\": \"10%%\"}, not %s.", res.kind)
	}
	return c
}

// server reads host:port or a URL, with the port that a URL implies.
func (r *reader) server(v value, whole hcl.Range) string {
	s := r.text(v, "apiserver", false)
	bad := func(why string, args ...any) string {
		r.fail(fault.WrongType, v.at, "apiserver cannot be used", why, args...)
		return ""
	}
	if s == "" {
		if !r.diags.HasErrors() {
			at := v.at
			if v.kind == "" {
				at = whole
				at.End = at.Start
			}
			r.fail(fault.MissingArgument, at, "There is no apiserver", "Write \"apiserver\": \"HOST:6443\".")
		}
		return ""
	}
	scheme, rest, found := strings.Cut(s, "://")
	switch {
	case !found:
		rest = s
	case strings.EqualFold(scheme, "http"):
		return bad("http is refused: nobody could tell who answers, and the token would go over the wire as it is. Write https://%s with the port that serves TLS, usually 6443.", rest)
	case !strings.EqualFold(scheme, "https"):
		return bad("%q is no scheme of an apiserver. Write host:port, or https://host:port.", scheme)
	}
	u, err := url.Parse("https://" + rest)
	switch {
	case err != nil:
		return bad("It is neither host:port nor https://host:port.")
	case u.User != nil:
		return bad("It holds a user name or a password, which would stand in every recording. Write host:port; the token comes as a credential.")
	case u.RawQuery != "" || u.Fragment != "" || u.Path != "" && u.Path != "/":
		return bad("It has a path. An apiserver is a host and a port: write https://%s.", u.Host)
	case u.Hostname() == "" || len(content.IsDNS1123Subdomain(strings.ToLower(u.Hostname()))) > 0 && !strings.Contains(u.Host, "["):
		return bad("%q is no name or address of a host.", u.Hostname())
	case u.Port() == "" && !found:
		return bad("The port is missing: write %s:6443.", rest)
	case u.Port() == "":
		return "https://" + strings.ToLower(u.Host) + ":443"
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || n == 0 {
		return bad("%q is no port.", u.Port())
	}
	return "https://" + strings.ToLower(u.Host)
}

func (r *reader) version(v value) string {
	s := r.text(v, "k8s_version", true)
	if v.kind == isNumber {
		if f, err := strconv.ParseFloat(s, 64); err != nil || strconv.FormatFloat(f, 'f', -1, 64) != s {
			r.fail(fault.WrongType, v.at, "k8s_version is a number that is not what it looks like", "To JSON, %s is another text. Write it in quotes: \"%s\".", s, s)
			return ""
		}
		r.note(fault.WrongType, v.at, "k8s_version is a number", "It was read as %q. Quotes keep 1.20 from being 1.2.", s)
	}
	if s == "" {
		return defaultVersion
	}
	if e := content.IsDNS1123Subdomain("kubelet-config-" + s); len(e) > 0 {
		r.fail(fault.WrongType, v.at, "k8s_version cannot be used", "There can be no ConfigMap kubelet-config-%s: %s.", s, strings.Join(e, "; "))
	}
	return s
}

// maxInterface is IFNAMSIZ of linux/if.h less the zero byte.
const maxInterface = 15

func (r *reader) link(v value) string {
	s := r.text(v, "listenInterface", false)
	if len(s) > maxInterface || strings.ContainsAny(s, "/ \t\n") {
		r.fail(fault.WrongType, v.at, "listenInterface is no interface", "The name of an interface has at most %d characters and no space or slash.", maxInterface)
	}
	return s
}

func (r *reader) resources(v value) (cpus, memory string) {
	m := r.object(v, "resources", "cpuRemained", "memoryReserved")
	c := m["cpuRemained"]
	if s := r.text(c, "cpuRemained", true); s != "" {
		n, err := strconv.ParseUint(s, 10, 16)
		switch {
		case err != nil:
			r.fail(fault.WrongType, c.at, "cpuRemained is no number of CPUs", "%s: a whole number is needed, of the CPUs that pods may use.", shorten(s))
		case n == 0:
			r.leave(fault.ReserveRefused, c.at, "cpuRemained is left out: it is 0", "It would leave no CPU to pods. CPU stays as the base has it; write remainder { cpus = … } in the site if that is not meant.")
		default:
			cpus = strconv.FormatUint(n, 10)
		}
	}
	p := m["memoryReserved"]
	s := r.text(p, "memoryReserved", true)
	if s == "" {
		return cpus, ""
	}
	n, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(s, "%")), 10, 8)
	switch {
	case err != nil || n > 100:
		r.fail(fault.WrongType, p.at, "memoryReserved is no percentage", "%s: a whole number from 0 to 100 and %% is needed, as \"10%%\".", shorten(s))
		return cpus, ""
	case n == 100:
		r.leave(fault.ReserveRefused, p.at, "memoryReserved is left out: it is 100%", "It would leave no memory to pods. Memory stays as the base has it; write remainder { memory = … } in the site if that is not meant.")
		return cpus, ""
	case !strings.HasSuffix(s, "%"):
		r.note(fault.WrongType, p.at, "memoryReserved has no %", "It was read as %d%%.", n)
	}
	return cpus, fmt.Sprintf("%d%%", n)
}

// items splits "a,b" and gives each part its own place, as far as it stands in the text without escapes.
func (r *reader) items(v value, key string) (out []member) {
	list := r.text(v, key, false)
	from := v.at.Start.Byte
	for _, s := range strings.Split(list, ",") {
		s = strings.TrimSpace(s)
		if s == "" {
			continue
		}
		m := member{key: s, at: v.at}
		if i := strings.Index(string(r.src[from:v.at.End.Byte]), s); i >= 0 {
			m.at = rangeOf(v.at.Filename, r.src, from+i, from+i+len(s))
			from += i + len(s)
		}
		out = append(out, m)
	}
	return out
}

func (r *reader) labels(v value) (out []label) {
	for _, i := range r.items(v, "nodeLabels") {
		k, val, pair := strings.Cut(i.key, "=")
		l := label{strings.TrimSpace(k), strings.TrimSpace(val), i.at}
		if err := kubelet.CheckLabel(l.Key, l.Value); err != nil {
			r.leave(fault.LabelInvalid, i.at, "A label is left out: no cluster takes it", "%s.", err)
			continue
		}
		if err := kubelet.CheckNodeKey(l.Key, ""); err != nil {
			r.leave(fault.LabelForbidden, i.at, "A label is left out: kubelets from 1.16 on refuse to start with it", "%s. For older ones it can stand in --node-labels of the ConfigMap's default-kubelet.", err)
			continue
		}
		if !pair {
			r.note(fault.LabelInvalid, i.at, "Label "+l.Key+" has no value", "It has the empty one in the site: %s = \"\".", l.Key)
		}
		if n := slices.IndexFunc(out, func(o label) bool { return o.Key == l.Key }); n >= 0 {
			if out[n].Value != l.Value {
				r.note(fault.Duplicate, i.at, "Label "+l.Key+" is given twice", "It is %q and %q, and the script passed both to the kubelet, in random order. The site has the last one.", out[n].Value, l.Value)
			}
			out[n] = l
			continue
		}
		out = append(out, l)
	}
	return out
}

func (r *reader) taints(v value) (out []taint) {
	for _, i := range r.items(v, "nodeTaints") {
		t, err := kubelet.ParseTaint(i.key)
		if err != nil {
			r.leave(fault.TaintInvalid, i.at, "A taint is left out: no kubelet takes it", "%s.", err)
			continue
		}
		x := taint{t, i.at}
		if n := slices.IndexFunc(out, func(o taint) bool { return o.Key == t.Key && o.Effect == t.Effect }); n >= 0 {
			if out[n].Value != t.Value {
				r.note(fault.Duplicate, i.at, "Taint "+t.Key+" is given twice", "It is %s and %s, and a node can have one of them. The site has the last one.", out[n].Taint, t)
			}
			out[n] = x
			continue
		}
		out = append(out, x)
	}
	return out
}

// quote shows a key in a message, bounded.
func quote(s string) string {
	if r := []rune(s); len(r) > 40 {
		s = string(r[:40]) + "…"
	}
	return strconv.Quote(s)
}

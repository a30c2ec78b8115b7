package importer

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"github.com/hashicorp/hcl/v2/hclwrite"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/platform/apiaddress"
)

// The templates of sites, by imported file. Each defines the differences on nodes of the site, and the decisions that a
// person must take before it is used: one sentence a line.
var (
	//go:embed site.hcl.tmpl
	siteTemplate string
	//go:embed join.hcl.tmpl
	joinTemplate string
)

// common is the data of both templates.
type common struct {
	Source     string
	Servers    []string // https://host:port
	Hashes     []string
	Credential string // "": the site has no token
	Labels     []label
	Taints     []kubelet.Taint // each key and effect once
}

type label struct{ Key, Value string }

type data interface{ token() string }

// token returns the name of the credential with the token; "": the site has none.
func (c common) token() string { return c.Credential }

// serverHelp is the message about an address that cannot be used. It does not have the address: that may contain a
// secret in any part.
const serverHelp = "Write HOST:PORT or https://HOST:PORT, with an IPv6 address in brackets and a port from 1 to " +
	"65535. http is refused, and so are a user, a path, a query and a fragment."

// checkServers makes URLs of the addresses of API servers. missing says where one is given.
func (r *reader) checkServers(c *common, missing string) {
	if len(c.Servers) == 0 {
		r.refuse(fault.MissingArgument, "No API server", "%s", missing)
	}

	c.Servers = slices.Clone(c.Servers)
	for i, s := range c.Servers {
		address, err := apiaddress.Parse(s)
		if err != nil {
			r.refuse(fault.WrongType, "The API server cannot be used", serverHelp)
		}
		c.Servers[i] = "https://" + address
	}
}

// addLabels adds a list of labels. Of a key the last one counts, as for the kubelet.
func (r *reader) addLabels(c *common, list string) {
	for _, item := range splitList(list) {
		key, val, isPair := strings.Cut(item, "=")
		l := label{strings.TrimSpace(key), strings.TrimSpace(val)}
		code := fault.LabelInvalid
		err := kubelet.CheckLabel(l.Key, l.Value)
		if err == nil {
			code = fault.LabelForbidden
			err = kubelet.CheckNodeKey(l.Key, "")
		}
		if err != nil {
			r.warn(code, "A label is not imported: the kubelet would refuse it", "%s.", err)
			continue
		}
		if !isPair {
			r.note(fault.LabelInvalid, "Label "+l.Key+" has no value",
				"The site sets the empty value: %s = \"\".", l.Key)
		}

		same := slices.IndexFunc(c.Labels, func(o label) bool { return o.Key == l.Key })
		if same < 0 {
			c.Labels = append(c.Labels, l)
			continue
		}
		r.noteTwice("Label "+l.Key, c.Labels[same].Value, l.Value)
		c.Labels[same] = l
	}
}

// addTaints adds a list of taints. Of a key and effect the last one counts: a node can have one of them.
func (r *reader) addTaints(c *common, list string) {
	for _, item := range splitList(list) {
		t, err := kubelet.ParseTaint(item)
		if err != nil {
			r.warn(fault.TaintInvalid, "A taint is not imported: the kubelet would refuse it", "%s.", err)
			continue
		}

		same := slices.IndexFunc(c.Taints, func(o kubelet.Taint) bool { return o.Key == t.Key && o.Effect == t.Effect })
		if same < 0 {
			c.Taints = append(c.Taints, t)
			continue
		}
		r.noteTwice("Taint "+t.Key, c.Taints[same].Value, t.Value)
		c.Taints[same] = t
	}
}

// noteTwice reports an item with two values.
func (r *reader) noteTwice(what, first, last string) {
	if first != last {
		r.note(fault.Duplicate, what+" is given twice", "It is %q and %q. The site has the last one.", first, last)
	}
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

// literal returns a value as an expression of the site's language.
func literal(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	t, err := ctyjson.ImpliedType(text)
	if err != nil {
		return "", err
	}
	c, err := ctyjson.Unmarshal(text, t)
	if err != nil {
		return "", err
	}

	return string(hclwrite.TokensForValue(c).Bytes()), nil
}

func parseTemplate(text string) (*template.Template, error) {
	return template.New(FileName).Funcs(template.FuncMap{
		"comment": func(s string) string { return strings.Trim(strconv.QuoteToGraphic(s), `"`) }, // in one line
		"list":    func(texts []string) (string, error) { return literal(texts) },
		"literal": literal,
		"quote":   value.Quote,
	}).Parse(text)
}

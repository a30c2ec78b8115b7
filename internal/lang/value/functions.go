package value

import (
	"maps"
	"net/url"
	"path"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	ctyyaml "github.com/zclconf/go-cty-yaml"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// Options are for who evaluates an expression to check it.
type Options struct {
	// OnUnsupported is told each attribute that an arm of try or can names and that the type does not have: a
	// misspelling that the arm after it would hide for ever. Nil: nobody wants to know.
	OnUnsupported func(*hcl.Diagnostic)
}

// Functions is the table of functions but for those that ask the world (credential, file, fileexists)
// and templatefile, which needs the site.
//
// Under Terraform's names: cty's standard library, and what Terraform adds that a site needs. Left out
// on purpose: what reads a clock, randomness or files (timestamp, plantimestamp, uuid, bcrypt, file…, pathexpand,
// abspath), because a plan is a function of its answers; what takes marks away or guesses at them
// (sensitive, nonsensitive, issensitive); other digests and encodings that nothing in a kubelet's files has (md5,
// sha1, sha512, base64gzip, base64sha256, textencodebase64, rsadecrypt); type and defaults.
func Functions() map[string]function.Function { return FunctionsWith(Options{}) }

// FunctionsWith is Functions for a checker.
func FunctionsWith(opts Options) map[string]function.Function {
	m := maps.Clone(common())
	m["try"] = tryFunc(opts)
	m["can"] = canFunc(opts)
	return m
}

// common are those that are the same for everybody. They are made once: a run checks its site and then evaluates it.
var common = sync.OnceValue(func() map[string]function.Function {
	m := make(map[string]function.Function, 96)
	for _, e := range looksInto() {
		m[e.name] = careful(e.name, e.f, carriesNothing)
	}
	for _, e := range []entry{
		{"merge", stdlib.MergeFunc},
		{"concat", stdlib.ConcatFunc},
		{"values", stdlib.ValuesFunc},
		{"coalesce", coalesceFunc()},
	} {
		m[e.name] = careful(e.name, e.f, carriesAll)
	}
	m["join"] = careful("join", stdlib.JoinFunc, carriesElements)
	m["format"] = careful("format", boundedFormat(stdlib.FormatFunc), carriesPlainVerbs)
	m["base64encode"] = textEncoder(opB64, "Encodes the UTF-8 bytes of a string in base64. A secret is encoded when the file is written.")
	m["sha256"] = textEncoder(opSHA256, "The SHA-256 digest of a string, in hexadecimal. Of a secret it is computed when the file is written.")
	m["jsonencode"] = documentEncoder(opJSON, stdlib.JSONEncodeFunc)
	m["yamlencode"] = documentEncoder(opYAML, ctyyaml.YAMLEncodeFunc)
	return m
})

type entry struct {
	name string
	f    function.Function
}

// looksInto are the functions whose result depends on the content of every argument.
func looksInto() []entry {
	return []entry{
		// numbers
		{"abs", stdlib.AbsoluteFunc},
		{"ceil", stdlib.CeilFunc},
		{"floor", stdlib.FloorFunc},
		{"log", finite(stdlib.LogFunc)},
		{"max", stdlib.MaxFunc},
		{"min", stdlib.MinFunc},
		{"parseint", stdlib.ParseIntFunc},
		{"pow", finite(stdlib.PowFunc)},
		{"signum", stdlib.SignumFunc},
		{"sum", sumFunc()},
		// networks
		{"cidrhost", cidrHostFunc()},
		{"cidrnetmask", cidrNetmaskFunc()},
		{"cidrsubnet", cidrSubnetFunc()},
		{"cidrsubnets", cidrSubnetsFunc()},
		// text
		{"basename", textFunc("The last part of a path.", path.Base)},
		{"chomp", stdlib.ChompFunc},
		{"dirname", textFunc("A path without its last part.", path.Dir)},
		{"endswith", suffixFunc()},
		{"formatdate", stdlib.FormatDateFunc},
		{"formatlist", boundedFormat(stdlib.FormatListFunc)},
		{"indent", indentFunc()},
		{"lower", stdlib.LowerFunc},
		{"regex", stdlib.RegexFunc},
		{"regexall", regexAllFunc()},
		{"replace", replaceFunc()},
		{"slug", slugFunc()},
		{"split", splitFunc()},
		{"startswith", prefixFunc()},
		{"strcontains", testText("Whether a string contains another.", strings.Contains, "substr")},
		{"strrev", stdlib.ReverseFunc},
		{"substr", stdlib.SubstrFunc},
		{"timeadd", stdlib.TimeAddFunc},
		{"title", stdlib.TitleFunc},
		{"trim", stdlib.TrimFunc},
		{"trimprefix", stdlib.TrimPrefixFunc},
		{"trimspace", stdlib.TrimSpaceFunc},
		{"trimsuffix", stdlib.TrimSuffixFunc},
		{"upper", stdlib.UpperFunc},
		{"urlencode", textFunc("A string as a part of a query of a URL.", url.QueryEscape)},
		// collections
		{"alltrue", boolsFunc(true)},
		{"anytrue", boolsFunc(false)},
		{"chunklist", stdlib.ChunklistFunc},
		{"coalescelist", stdlib.CoalesceListFunc},
		{"compact", compactFunc()},
		{"contains", stdlib.ContainsFunc},
		{"distinct", stdlib.DistinctFunc},
		{"element", stdlib.ElementFunc},
		{"flatten", stdlib.FlattenFunc},
		{"index", indexFunc()},
		{"keys", stdlib.KeysFunc},
		{"length", lengthFunc()},
		{"lookup", lookupFunc()},
		{"matchkeys", matchKeysFunc()},
		{"one", oneFunc()},
		{"range", rangeFunc()},
		{"reverse", stdlib.ReverseListFunc},
		{"setintersection", stdlib.SetIntersectionFunc},
		{"setproduct", setProductFunc()},
		{"setsubtract", stdlib.SetSubtractFunc},
		{"setunion", stdlib.SetUnionFunc},
		{"slice", stdlib.SliceFunc},
		{"sort", stdlib.SortFunc},
		{"transpose", transposeFunc()},
		{"where", whereFunc()},
		{"zipmap", stdlib.ZipmapFunc},
		// types
		{"tobool", stdlib.MakeToFunc(cty.Bool)},
		{"tolist", stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType))},
		{"tomap", stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType))},
		{"tonumber", stdlib.MakeToFunc(cty.Number)},
		{"toset", stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType))},
		{"tostring", stdlib.MakeToFunc(cty.String)},
		// documents
		{"base64decode", base64DecodeFunc()},
		{"csvdecode", csvDecodeFunc()},
		{"jsondecode", decodeFunc("JSON", DecodeJSON)},
		{"yamldecode", decodeFunc("YAML", DecodeYAML)},
	}
}

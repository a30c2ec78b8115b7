package functions

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	ctyyaml "github.com/zclconf/go-cty-yaml"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/value"
)

// Checking is for callers that check an expression.
type Checking struct {
	// OnUnsupported is called for each attribute in try and can that the type does not have: a misspelling that a later
	// expression would hide on every machine. It may be nil.
	OnUnsupported func(*hcl.Diagnostic)
}

// All returns the functions that read nothing: cty's standard library, and what Terraform adds that a site needs,
// under Terraform's names. Left out on purpose are functions that read a clock, randomness or files, because a plan is
// a function of its answers; that remove marks; and digests and encodings that no file of a kubelet needs.
func All() map[string]function.Function {
	return AllWith(Checking{})
}

// AllWith is All with options.
func AllWith(opts Checking) map[string]function.Function {
	functions := maps.Clone(common())
	functions["try"] = tryFunc(opts)
	functions["can"] = canFunc(opts)

	return functions
}

// common are the functions that are the same for all callers. They are made once: a run checks its site and then
// evaluates it.
var common = sync.OnceValue(func() map[string]function.Function {
	return map[string]function.Function{
		// numbers
		"abs":      stdlib.AbsoluteFunc,
		"ceil":     stdlib.CeilFunc,
		"floor":    stdlib.FloorFunc,
		"log":      finite(stdlib.LogFunc),
		"max":      stdlib.MaxFunc,
		"min":      stdlib.MinFunc,
		"parseint": stdlib.ParseIntFunc,
		"pow":      finite(stdlib.PowFunc),
		"signum":   stdlib.SignumFunc,
		"sum":      sumFunc(),
		// networks
		"cidrcontains": cidrContainsFunc(),
		"cidrhost":     cidrHostFunc(),
		"cidrnetmask":  cidrNetmaskFunc(),
		"cidrsubnet":   cidrSubnetFunc(),
		"cidrsubnets":  cidrSubnetsFunc(),
		// text
		"basename":   textFunc("The last part of a path.", path.Base),
		"chomp":      stdlib.ChompFunc,
		"dirname":    textFunc("A path without its last part.", path.Dir),
		"endswith":   testFunc("Whether a string ends with another.", strings.HasSuffix, "suffix"),
		"format":     boundedFormat(stdlib.FormatFunc),
		"formatdate": stdlib.FormatDateFunc,
		"formatlist": boundedFormat(stdlib.FormatListFunc),
		"indent":     indentFunc(),
		"join":       stdlib.JoinFunc,
		"lower":      stdlib.LowerFunc,
		"regex":      checkPattern(stdlib.RegexFunc),
		"regexall":   checkPattern(boundedParts(stdlib.RegexAllFunc, "matches and groups", countMatches)),
		"replace":    replaceFunc(),
		"slug":       slugFunc(),
		"split":      boundedParts(stdlib.SplitFunc, "parts", countParts),
		"startswith": testFunc(
			"Whether a string starts with another.",
			strings.HasPrefix,
			"prefix",
		),
		"strcontains": testFunc("Whether a string contains another.", strings.Contains, "substr"),
		"strrev":      stdlib.ReverseFunc,
		"substr":      stdlib.SubstrFunc,
		"timeadd":     stdlib.TimeAddFunc,
		"title":       stdlib.TitleFunc,
		"trim":        stdlib.TrimFunc,
		"trimprefix":  stdlib.TrimPrefixFunc,
		"trimspace":   stdlib.TrimSpaceFunc,
		"trimsuffix":  stdlib.TrimSuffixFunc,
		"upper":       stdlib.UpperFunc,
		"urlencode":   textFunc("A string as a part of a query of a URL.", url.QueryEscape),
		// collections
		"alltrue": quantifier(
			true,
			"Whether all elements of a list are true; of an empty one, true.",
		),
		"anytrue":         quantifier(false, "Whether at least one element of a list is true."),
		"chunklist":       stdlib.ChunklistFunc,
		"coalesce":        coalesceFunc(),
		"coalescelist":    stdlib.CoalesceListFunc,
		"compact":         stdlib.CompactFunc,
		"concat":          stdlib.ConcatFunc,
		"contains":        stdlib.ContainsFunc,
		"distinct":        stdlib.DistinctFunc,
		"element":         stdlib.ElementFunc,
		"flatten":         stdlib.FlattenFunc,
		"index":           indexFunc(),
		"keys":            stdlib.KeysFunc,
		"length":          lengthFunc(),
		"lookup":          lookupFunc(),
		"matchkeys":       matchKeysFunc(),
		"merge":           stdlib.MergeFunc,
		"one":             oneFunc(),
		"range":           stdlib.RangeFunc,
		"reverse":         stdlib.ReverseListFunc,
		"setintersection": stdlib.SetIntersectionFunc,
		"setproduct":      setProductFunc(),
		"setsubtract":     stdlib.SetSubtractFunc,
		"setunion":        stdlib.SetUnionFunc,
		"slice":           stdlib.SliceFunc,
		"sort":            stdlib.SortFunc,
		"transpose":       transposeFunc(),
		"values":          stdlib.ValuesFunc,
		"where":           whereFunc(),
		"zipmap":          stdlib.ZipmapFunc,
		// types
		"tobool":   stdlib.MakeToFunc(cty.Bool),
		"tolist":   stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)),
		"tomap":    stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)),
		"tonumber": stdlib.MakeToFunc(cty.Number),
		"toset":    stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),
		"tostring": stdlib.MakeToFunc(cty.String),
		// documents
		"base64decode": base64DecodeFunc(),
		"csvdecode":    boundedParts(stdlib.CSVDecodeFunc, "cells", countCells),
		"jsondecode":   decodeFunc("JSON", codec.DecodeJSON),
		"yamldecode":   decodeFunc("YAML", codec.DecodeYAML),
		"base64encode": textFunc(
			"Encodes the UTF-8 bytes of a string in base64. A secret is encoded when the file is written.",
			secret.EncodeBase64,
		),
		"jsonencode":   documentEncoder(stdlib.JSONEncodeFunc, encodeJSONSecrets),
		"tomlencode":   documentEncoder(tomlEncodeFunc(), encodeTOMLSecrets),
		"yamlencode":   documentEncoder(ctyyaml.YAMLEncodeFunc, encodeJSONSecrets),
		"nfd_features": nfdFeaturesFunc(),
		"sha256":       textFunc("The SHA-256 digest of a string, in hexadecimal.", digest),
	}
})

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// ReadsMachine reports whether a function reads a file or a credential of the machine.
func ReadsMachine(function string) bool {
	return slices.Contains([]string{"file", "fileexists", "credential"}, function)
}

// CredentialName returns NAME of credential("NAME"); ok is false for any other expression.
func CredentialName(x hclsyntax.Expression) (name string, ok bool) {
	call, ok := x.(*hclsyntax.FunctionCallExpr)
	if !ok || call.Name != "credential" || len(call.Args) != 1 || call.ExpandFinal {
		return "", false
	}

	return value.LiteralText(call.Args[0])
}

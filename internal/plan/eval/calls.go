package eval

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/model/value"
)

// checkCalls refuses unknown functions before evaluation: try() and can() would excuse them on every machine, and HCL
// suggests another name each time.
func (e *Eval) checkCalls(x hclsyntax.Expression) hcl.Diagnostics {
	var diags hcl.Diagnostics
	known := e.Functions()
	_ = hclsyntax.VisitAll(x, func(n hclsyntax.Node) hcl.Diagnostics {
		call, ok := n.(*hclsyntax.FunctionCallExpr)
		if !ok {
			return nil
		}
		if _, ok := known[call.Name]; !ok {
			summary := fmt.Sprintf("Unknown function %q", call.Name)
			next := suggestFunction(call.Name, sortedKeys(known))
			diags = append(diags, refuse(call.NameRange, summary, "%s", next))
		}
		diags = append(diags, checkLiterals(call)...)
		return nil
	})

	return diags
}

// checkLiterals refuses a broken regular expression and a relative path that are written as texts, before evaluation:
// try() and can() would excuse them on every machine. It warns of a path that prelet's units do not see.
func checkLiterals(call *hclsyntax.FunctionCallExpr) (diags hcl.Diagnostics) {
	if diag := checkOrder(call); diag != nil {
		return hcl.Diagnostics{diag}
	}
	at := map[string]int{"regex": 0, "regexall": 0, "replace": 1, "file": 0, "fileexists": 0}
	i, isChecked := at[call.Name]
	if !isChecked || i >= len(call.Args) {
		return nil
	}
	text, isLiteral := value.LiteralText(call.Args[i])
	if !isLiteral {
		return nil
	}

	if strings.HasPrefix(call.Name, "file") {
		if !path.IsAbs(text) {
			diags = append(diags, refuse(call.Args[i].Range(), fmt.Sprintf("%q is not an absolute path", text),
				"%s reads a file of the node: write its path from / on. A file of the site is read by "+
					"sitedata(NAME) or templatefile(NAME, VARS).", call.Name))
		} else if desired.IsHidden(text) {
			diags = append(diags, origin.Warning(fault.FileUnusable, call.Args[i].Range(),
				"prelet.service does not see "+text, "%s", desired.WhyHidden(text)))
		}
		return diags
	}
	if call.Name == "replace" {
		if len(text) < 2 || text[0] != '/' || !strings.HasSuffix(text, "/") { // not a pattern
			return nil
		}
		text = text[1 : len(text)-1]
	}
	if _, err := regexp.Compile(text); err != nil {
		diags = append(diags, refuse(call.Args[i].Range(), "The regular expression is not valid",
			"%s. The syntax is RE2's: https://github.com/google/re2/wiki/Syntax. In a text in quotes a backslash is "+
				"written twice.", err))
	}

	return diags
}

// checkOrder warns of a search in a literal text for an argument that is not literal: mostly the arguments are in the
// wrong order.
func checkOrder(call *hclsyntax.FunctionCallExpr) *hcl.Diagnostic {
	searches := []string{"startswith", "endswith", "strcontains"}
	if !slices.Contains(searches, call.Name) || len(call.Args) != 2 {
		return nil
	}
	text, isLiteral := value.LiteralText(call.Args[0])
	if _, isBoth := value.LiteralText(call.Args[1]); !isLiteral || isBoth {
		return nil
	}

	summary := fmt.Sprintf("%s searches the text %q", call.Name, text)

	return origin.Warning(fault.WrongType, call.Args[0].Range(), summary,
		"The text comes first, and then what is searched in it. Write %s(TEXT, %q).", call.Name, text)
}

// otherWays are Terraform's functions that do not exist here, and what to do instead.
var otherWays = []struct {
	names []string
	next  string
}{
	{
		[]string{"timestamp", "plantimestamp", "uuid", "uuidv5", "bcrypt"},
		"A plan has no clock and no randomness: on the same node it is the same each time.",
	},
	{
		[]string{"env", "getenv", "get_env"},
		"The environment is not read. Declare a variable, which a credential prelet.var.NAME, the kernel " +
			"command line " +
			"or a vars file gives.",
	},
	{[]string{"len", "size", "count"}, "Write length(LIST)."},
	{
		[]string{"secret", "vault", "password"},
		"A secret is the credential of systemd that has it: credential(\"NAME\").",
	},
	{[]string{"printf", "sprintf", "concat_ws"}, "Write format(\"%s-%s\", A, B), or the text itself: \"${A}-${B}\"."},
	{[]string{"string", "str", "int", "number", "bool"}, "Write tostring(…), tonumber(…) or tobool(…)."},
	{[]string{"default", "ifnull", "nvl"}, "The first value that is not null is coalesce(A, B)."},
	{[]string{"match", "matches", "test"}, "Write can(regex(\"PATTERN\", TEXT))."},
	{
		[]string{"md5", "sha1", "sha512", "base64sha256", "base64sha512"},
		"The only digest is sha256.",
	},
	{
		[]string{"sensitive", "nonsensitive", "issensitive"},
		"The value of a credential is always a secret. To make a variable one, write sensitive = true in it.",
	},
}

// suggestFunction returns the next step for a call of a function that does not exist.
func suggestFunction(name string, known []string) string {
	for _, other := range otherWays {
		if slices.Contains(other.names, name) {
			return other.next
		}
	}
	if strings.HasPrefix(name, "file") || name == "abspath" || name == "pathexpand" {
		return "Read the node's files with file(PATH), fileexists(PATH) and stage \"fetch-config\", and the " +
			"site's with sitedata(NAME) and templatefile(NAME, VARS)."
	}
	if near := texts.Nearest(name, known); near != "" {
		return fmt.Sprintf("Did you mean %q?", near)
	}

	begin := name[:min(4, len(name))]
	alike := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return !strings.HasPrefix(k, begin) })
	if len(alike) > 0 {
		return "There is: " + strings.Join(alike, ", ") + "; `prelet schema` lists all functions."
	}

	return "`prelet schema` lists all functions."
}

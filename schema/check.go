package schema

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/texts"
)

// Check checks the form of a body: names of attributes and blocks, required ones, labels, and how often a block may
// occur. It evaluates nothing. A name that the block does not have is looked up in the language, the blocks outside of
// all others. Extra are further attributes that the caller handles (when, for_each, timeout, on_failure).
func (b Block) Check(body *hclsyntax.Body, language []Block, extra ...string) hcl.Diagnostics {
	c := checker{language: language}
	c.check(b, nil, body, body.MissingItemRange(), extra)

	return c.Diags
}

// checker checks the form of a body and of its blocks.
type checker struct {
	origin.Collector
	language []Block
}

func (c *checker) check(b Block, labels []string, body *hclsyntax.Body, head hcl.Range, extra []string) {
	if b.ForEach {
		extra = append(extra, Meta...)
	}
	if !b.Free {
		c.checkNames(b, body, extra)
		c.checkRequired(b, labels, body, head)
	}
	c.checkBlocks(b, body)
}

// checkNames refuses attributes that are not declared.
func (c *checker) checkNames(b Block, body *hclsyntax.Body, extra []string) {
	attributes, blocks := b.Names()
	known := slices.Concat(attributes, extra)
	for _, a := range sortedAttributes(body) {
		if slices.Contains(known, a.Name) {
			continue
		}
		hint := b.suggestInner(a.Name, c.language)
		if x, isBlock := b.Find(a.Name); isBlock {
			hint = fmt.Sprintf("%s is a block: write it without the equals sign, %s.", a.Name, x.Usage())
		}
		if hint == "" {
			hint = SuggestPlace(a.Name, false, slices.Concat(known, blocks), c.language)
		}
		if hint == "" {
			hint = Suggest(a.Name, known)
		}
		c.Error(
			fault.UnknownArgument,
			a.NameRange,
			fmt.Sprintf("Unknown argument %q", a.Name),
			"%s has no argument of this name. %s",
			b.subject(),
			hint,
		)
	}
}

// suggestInner returns the block in this one to which an attribute or a block belongs; "" if none has it.
func (b Block) suggestInner(name string, language []Block) string {
	for _, n := range b.Blocks {
		_, isField := n.Field(name)
		_, isBlock := n.Find(name)
		if isField || isBlock {
			return fmt.Sprintf("It belongs in %s.", n.Usage())
		}
	}

	attributes, blocks := b.Names()
	isOther := replacedWords()[name] != "" || isElsewhere(name, language)
	if isOther || texts.Nearest(name, slices.Concat(attributes, blocks, Meta)) != "" {
		return ""
	}
	switch b.Type {
	case "kubelet_config":
		return fmt.Sprintf("A field of the kubelet's configuration is written in patch = { %s = … }.", name)
	case "kubelet_flags":
		flag := strings.ReplaceAll(name, "_", "-")
		return fmt.Sprintf("A flag of the kubelet is written in flags = { %s = … }.", flag)
	}

	return ""
}

// checkRequired reports required attributes that are missing. A misspelt one is reported as that only.
func (c *checker) checkRequired(b Block, labels []string, body *hclsyntax.Body, head hcl.Range) {
	for _, f := range b.Fields {
		s := f.Spec()
		if !s.Required || body.Attributes[s.Name] != nil || b.isMisspelt(body, s.Name) {
			continue
		}
		doc := removeLinks(s.Doc)
		if len(labels) > 0 && path.IsAbs(labels[0]) {
			doc = fmt.Sprintf("The label is a name for people: %s \"NAME\" { %s = %q … }.", b.Type, s.Name, labels[0])
		}
		c.Error(fault.MissingArgument, head, fmt.Sprintf("Missing argument %q", s.Name),
			"%s needs %s (%s). %s", b.subject(), s.Name, TypeName(s.Type), doc)
	}
}

// isMisspelt reports whether a body has a name that is not declared, and is close to that of an attribute.
func (b Block) isMisspelt(body *hclsyntax.Body, attribute string) bool {
	attributes, blocks := b.Names()
	known := slices.Concat(attributes, blocks, Meta)
	isMeant := func(name string) bool {
		return !slices.Contains(known, name) && findNear(name, attributes) == attribute
	}
	for name := range body.Attributes {
		if isMeant(name) {
			return true
		}
	}

	return slices.ContainsFunc(body.Blocks, func(x *hclsyntax.Block) bool {
		return x.Type == attribute || isMeant(x.Type)
	})
}

var linkPattern = texts.LazyRegexp(`\[([^\]]+)\]\([^)]*\)`)

// removeLinks leaves the text of links in Markdown: a message has nothing that they could lead to.
func removeLinks(doc string) string { return linkPattern().ReplaceAllString(doc, "$1") }

// checkBlocks checks the blocks of a body, and how many there are of each type.
func (c *checker) checkBlocks(b Block, body *hclsyntax.Body) {
	count := map[string]int{} // of types, and of types with labels
	first := map[string]hcl.Range{}
	for _, x := range body.Blocks {
		declared, ok := b.Find(x.Type)
		if !ok {
			c.Report(c.unknownBlock(b, x))
			continue
		}
		if len(x.Labels) != len(declared.Labels) {
			c.Error(
				fault.UnknownBlock,
				x.DefRange(),
				fmt.Sprintf("Wrong labels of block %q", x.Type),
				"It is written %s.",
				declared.Usage(),
			)
			continue
		}

		labels := strings.Join(x.Labels, " ")
		key := x.Type + " " + labels
		count[key]++
		if count[key] == 1 {
			first[key] = x.DefRange()
		}
		switch hasLabels := len(declared.Labels) > 0; {
		case hasLabels && count[key] == 2:
			c.Error(
				fault.Duplicate,
				x.DefRange(),
				fmt.Sprintf("Block %s %q is there twice", x.Type, labels),
				"The first is at %s. Give one of them another name, or remove it.",
				origin.Place(first[key]),
			)
		case !hasLabels && declared.Max > 0 && count[key] == declared.Max+1:
			c.Report(tooManyBlocks(x, "Block %s takes %d of it.", b.Type, declared.Max))
		}
		c.check(declared, x.Labels, x.Body, x.DefRange(), nil)
	}
}

func (c *checker) unknownBlock(b Block, x *hclsyntax.Block) *hcl.Diagnostic {
	attributes, blocks := b.Names()
	hint := b.suggestInner(x.Type, c.language)
	if hint == "" {
		hint = SuggestPlace(x.Type, true, slices.Concat(blocks, attributes), c.language)
	}
	switch {
	case hint == "" && len(blocks) == 0 && len(attributes) > 0:
		hint = "It has arguments only: " + strings.Join(attributes, ", ") + "."
	case hint == "":
		hint = Suggest(x.Type, blocks)
	}

	meant := x.Type
	if texts.Nearest(x.Type, blocks) == "" {
		meant = cmp.Or(texts.Nearest(x.Type, attributes), x.Type)
	}
	form := "{ … }"
	s, isAttribute := b.Field(meant)
	if isAttribute {
		form = describeForm(s)
	}
	if isAttribute || b.Free {
		hint = fmt.Sprintf("%s is an argument: write %s = %s.", meant, meant, form)
	}

	return origin.Error(fault.UnknownBlock, x.TypeRange, fmt.Sprintf("Unknown block %q", x.Type),
		"%s has no block of this name. %s", b.subject(), hint)
}

// subject returns the begin of a sentence about a block, or about a whole file, whose type is its name: .prelet.hcl.
func (b Block) subject() string {
	if strings.HasPrefix(b.Type, ".") {
		return b.Type
	}

	return "Block " + b.Type
}

// describeForm returns how the value of an attribute is written.
func describeForm(s Spec) string {
	switch {
	case s.Type.IsPrimitiveType():
		return "…"
	case s.Type.IsListType(), s.Type.IsSetType(), strings.HasPrefix(s.Doc, "A list"):
		return "[…]"
	default:
		return "{ … }"
	}
}

func tooManyBlocks(x *hclsyntax.Block, detail string, args ...any) *hcl.Diagnostic {
	return origin.Error(
		fault.Duplicate,
		x.DefRange(),
		fmt.Sprintf("Too many %q blocks", x.Type),
		detail,
		args...)
}

// Usage returns how the head of the block is written: file "NAME" { … }.
func (b Block) Usage() string {
	s := b.Type
	for _, l := range b.Labels {
		s += fmt.Sprintf(" %q", strings.ToUpper(l))
	}
	return s + " { … }"
}

// SuggestPlace returns a correction for an unknown name of a block or an argument: a known name for a word of another
// language or a misspelt one, or the place in the language where the name belongs; "" for none.
func SuggestPlace(word string, isBlock bool, known []string, language []Block) string {
	if hint := replacedWords()[word]; hint != "" && !slices.Contains(known, word+"s") {
		return hint
	}

	near, place := suggestNear(word, known), suggestElsewhere(word, isBlock, language)
	if near != "" && strings.Count(place, " belongs in ") > 1 {
		return near
	}

	return strings.TrimSpace(near + " " + place)
}

// Suggest returns the known word that was probably meant, or all of them, as a sentence.
func Suggest(word string, known []string) string {
	if near := suggestNear(word, known); near != "" {
		return near
	}
	if len(known) == 0 {
		return "It has none."
	}
	return "There is: " + strings.Join(slices.Sorted(slices.Values(known)), ", ") + "."
}

// whichCPUs ends messages about amounts of CPUs: it names the field that selects CPUs by number.
const whichCPUs = "Which CPUs is patch = { reservedSystemCPUs = \"0-3\" } of kubelet_config."

// replacedWords are words of Terraform and of other tools, and words that the language no longer has, with their
// replacements.
func replacedWords() map[string]string {
	const runtime = "The drop-in of a container runtime is a file block: file \"NAME\" { path = …, " +
		"content = tomlencode({ … }), notify = [stage.restart.NAME, …] }. See docs/image-builders/runtime.md."

	const testFile = "A test is in a file of its own, NAME.prelettest.hcl: run \"NAME\" { … }, with assert { … } in it."
	const projectFile = "It belongs in .prelet.hcl, a file for commands in its folder: layers = [\".\"], " +
		"machines = [\"machines/*.json\"]. For one command: --config FOLDER."

	return map[string]string{
		"registry": runtime,
		"runtime":  runtime,
		"credential_providers": "Its configuration is a file block with yamlencode({ … }), and its two flags are in " +
			"kubelet_flags. See docs/image-builders/runtime.md.",
		"preloaded_images": "Its fields are in patch of kubelet_config. See docs/image-builders/runtime.md.",
		"instance_config": "Its fields are a file block for /var/lib/kubelet/instance-config.yaml with " +
			"yamlencode({ … }). See docs/image-builders/kubeadm.md.",
		"cores":         "Whole cores are topology { cores = 2 }; an amount of cpu is cpu = \"500m\". " + whichCPUs,
		"cpus":          "Whole cores are topology { cores = 2 }; an amount of cpu is cpu = \"500m\". " + whichCPUs,
		"kube_reserved": "The policy decides it, and policy = \"static\" takes your amounts: static { cpu = \"1\" }.",
		"system_reserved": "systemReserved is set in patch of kubelet_config: " +
			"patch = { systemReserved = { cpu = \"1\", memory = \"2Gi\" } }.",
		"if":          "Write when = CONDITION.",
		"source":      "Write content = templatefile(NAME, VARS), with a file of the site.",
		"group":       "Write owner = \"USER:GROUP\".",
		"permissions": "Write mode = \"0644\".",
		"var":         "Write variable \"NAME\" { … }.",
		"kubelet": "The kubelet's files are kubelet_config { … } and kubelet_flags { … } in stage " +
			"\"write\" \"NAME\" { … }, and its start is stage \"restart\" \"kubelet\" { … }.",
		"kubelets":   projectFile,
		"layers":     projectFile,
		"machines":   projectFile,
		"objects":    projectFile,
		"assert":     testFile,
		"required":   "A variable without a default needs a value: leave both out.",
		"run":        testFile,
		"credential": "It is a function, where the secret is needed: token = credential(\"bootstrap-token\").",
		"link":       "A site writes files and directories, and no links: write the file at its own path.",
		"symlink":    "A site writes files and directories, and no links: write the file at its own path.",
		"count": "For several: for_each = { NAME = VALUE, … }, and each.key, each.value. For one that depends on a " +
			"condition: when = CONDITION.",
		"depends_on": "A stage runs after the stages that it refers to, as stage.TYPE.NAME: nothing else is needed.",
		"lifecycle":  "Nothing is replaced or destroyed here. Leave it out.",
		"dynamic":    "Write the block with for_each, where it takes one, or several blocks.",
		"resource":   "What a node gets is a stage: stage \"TYPE\" \"NAME\" { … }.",
		"data": "What is read is a stage: stage \"fetch-config\" \"NAME\" { … }, " +
			"stage \"detect-hw\" \"NAME\" { … }.",
		"module": "A site has layers: name several folders with --config, and change a block of an earlier one " +
			"with override.",
		"output": "Each stage has outputs of its own: stage.TYPE.NAME.OUTPUT. " +
			"A value with a name is in locals { … }.",
		"provider":  "There are none. What reads a vendor's hardware is a detector: detector \"NAME\" { … }.",
		"terraform": "Write prelet { required_version = \"…\" }.",
	}
}

// TypeName returns a type in the words of the reference pages.
func TypeName(t cty.Type) string {
	switch {
	case t == cty.DynamicPseudoType:
		return "any"
	case t.IsListType():
		return "list of " + TypeName(t.ElementType())
	case t.IsSetType():
		return "set of " + TypeName(t.ElementType())
	case t.IsMapType():
		return "map of " + TypeName(t.ElementType())
	}
	return t.FriendlyNameForConstraint()
}

func sortedAttributes(body *hclsyntax.Body) []*hclsyntax.Attribute {
	return slices.SortedFunc(maps.Values(body.Attributes), func(x, y *hclsyntax.Attribute) int {
		a := x.SrcRange
		b := y.SrcRange
		return cmp.Or(
			cmp.Compare(a.Filename, b.Filename),
			cmp.Compare(a.Start.Byte, b.Start.Byte),
		)
	})
}

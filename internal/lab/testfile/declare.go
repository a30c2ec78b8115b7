package testfile

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/kubelet/known"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/schema"
)

// The attributes of run and assert blocks.
var (
	hardwareAttr = schema.Attr[string]{
		Name:  "hardware",
		Check: checkPattern,
		Doc: "A glob of recorded machines, as `--hardware` takes them: trees, " +
			"and facts as `prelet detect -o json` prints them. The run has one result for each.",
	}
	fromAttr = schema.Attr[string]{
		Name:  "from",
		Check: checkPattern,
		Doc: "A glob of recordings, or of folders with recordings, instead of `hardware`. " +
			"The run has one result for each.",
	}
	rootAttr = schema.Attr[string]{
		Name:        "root",
		DefaultText: "an empty folder",
		Doc:         "A folder with the files of the node, with `hardware` only.",
	}
	objectsAttr = schema.Attr[cty.Value]{
		Name: "objects",
		Doc: "The objects of the cluster: a folder as for `--objects`, or a map from `\"NAMESPACE/NAME\"` to the " +
			"data of a ConfigMap, and from `\"ca.crt\"` to the CA.",
	}
	variablesAttr = schema.Attr[cty.Value]{
		Name: "variables",
		Doc: "Values of variables by name. They win over those of the file's `variables`, and these over the site's. " +
			"Null takes a value of the file away.",
	}
	detectorsAttr = schema.Attr[cty.Value]{
		Name: "detectors",
		Doc: "Replies of detectors by name: `{ state, facts, attributes, labels, devices }`. `state` is `ok` " +
			"(the default), `failed`, `absent` or `skipped`; the others need `ok`.",
	}
	withoutAttr = schema.Attr[[]string]{
		Name:  "without",
		Type:  cty.List(cty.String),
		Check: checkAddresses,
		Doc:   "PCI addresses of devices that are removed from the facts.",
	}
	kubeletAttr = schema.Attr[string]{
		Name:        "kubelet_version",
		Check:       known.CheckVersion,
		DefaultText: "that of a recording; else unknown",
		Doc:         "The version of the installed kubelet.",
	}
	expectAttr = schema.Attr[[]string]{
		Name:  "expect_error",
		Type:  cty.List(cty.String),
		Check: checkCodes,
		Doc: "The code, or a list of codes, that the plan must fail with. Each of them must occur, and no other. " +
			"Without it the plan must have no error.",
	}
	snapshotAttr = schema.Attr[string]{
		Name:  "snapshot",
		Check: checkSnapshot,
		Doc: "Compares the plan's text with the file `snapshots/NAME.txt` next to the test file; " +
			"`prelet test --update` writes it. Over several machines it is `snapshots/NAME/MACHINE.txt`.",
	}
	conditionAttr = schema.Attr[cty.Value]{
		Name:     "condition",
		Required: true,
		Doc:      "What must be true of the plan.",
	}
	messageAttr = schema.Attr[cty.Value]{
		Name: "error_message",
		Doc:  "What a false condition means.",
	}
)

var (
	assertBlock = schema.Block{
		Type:   "assert",
		Doc:    "One condition. All of them are checked.",
		Fields: []schema.Field{conditionAttr, messageAttr},
	}
	variablesBlock = schema.Block{
		Type: "variables",
		Doc:  "Values of the site's variables, for all runs of the file.",
		Max:  1,
		Free: true,
	}
	runBlock = schema.Block{
		Type:   "run",
		Labels: []string{"name"},
		Doc:    "Evaluates the site once for each machine.",
		Fields: []schema.Field{
			hardwareAttr,
			fromAttr,
			rootAttr,
			objectsAttr,
			variablesAttr,
			detectorsAttr,
			withoutAttr,
			kubeletAttr,
			expectAttr,
			snapshotAttr,
		},
		Blocks: []schema.Block{assertBlock},
	}
	fileBlock = schema.Block{
		Type:   ".prelettest.hcl",
		Blocks: []schema.Block{variablesBlock, runBlock},
	}
)

// Blocks returns the declarations of the blocks of a test file, for editors.
func Blocks() []schema.Block { return fileBlock.Blocks }

func checkPattern(pattern string) error {
	switch _, err := path.Match(pattern, ""); {
	case pattern == "":
		return errors.New("write a path or a glob, relative to the test file")
	case err != nil:
		return fmt.Errorf("%q is not a valid glob: a bracket is not closed", pattern)
	case strings.Contains(pattern, "**"):
		return fmt.Errorf("%q has **, which would match within one folder only, as * does; write */* for two levels",
			pattern)
	}

	return nil
}

var pciAddress = texts.LazyRegexp(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

func checkAddresses(all []string) error {
	for _, a := range all {
		if !pciAddress().MatchString(a) {
			return fmt.Errorf("%q is not a PCI address; write it as in the facts: \"0000:1b:00.0\"", a)
		}
	}

	return nil
}

var snapshotName = texts.LazyRegexp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

func checkSnapshot(name string) error {
	if !snapshotName().MatchString(name) {
		return errors.New("use letters, digits, and . _ - after the first, at most 100")
	}

	return nil
}

var states = []string{"ok", "failed", "absent", "skipped"}

func checkCodes(codes []string) error {
	if len(codes) == 0 {
		return errors.New("write the code of an error, or a list of codes: expect_error = \"variable-invalid\"")
	}

	known := listCodes()
	for _, c := range codes {
		if !slices.Contains(known, c) {
			return fmt.Errorf("unknown code %q. %s docs/codes lists all", c, suggestCode(c, known))
		}
	}

	return nil
}

// suggestCode names a similar code; the list of all would be too long.
func suggestCode(code string, known []string) string {
	if near := texts.Nearest(code, known); near != "" {
		return fmt.Sprintf("Did you mean %q?", near)
	}

	return "No error has this code; messages show theirs in brackets."
}

func listCodes() []string {
	var out []string
	for _, c := range fault.Codes() {
		if page, _ := c.Page(); !page.Warning {
			out = append(out, string(c))
		}
	}

	return out
}

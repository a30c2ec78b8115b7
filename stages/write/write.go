// Package write is the stage that renders the kubelet's files, and the files that a site adds. The boot calls Base,
// Add and Render in this order. It writes nothing: its files are part of the plan, and disk.go of
// internal/machine/generation writes those of a plan.
package write

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// nullNext is the next step for a block without a value on a machine.
const nullNext = "It has no value on this machine. Add a condition to the block: when = …."

var (
	bootPath = schema.Attr[string]{
		Name:    "path",
		Default: "/etc/kubernetes/bootstrap-kubelet.conf",
		Check:   checkKubeletPath,
		Doc:     "Where it is written.",
	}
	bootServer = schema.Attr[string]{
		Name:        "server",
		Check:       schema.Server,
		DefaultText: "the first of `cluster.servers`",
		Doc:         "The apiserver that the kubelet joins through.",
	}
	bootCA = schema.Attr[string]{
		Name:        "ca",
		Doc:         "The cluster's CA, PEM.",
		DefaultText: "`pem` of the only fetch-ca",
		Ref:         &schema.RefDefault{Stage: "fetch-ca", Output: "pem"},
	}

	caPath = schema.Attr[string]{
		Name:    "path",
		Default: "/etc/kubernetes/pki/ca.crt",
		Check:   checkKubeletPath,
		Doc:     "Where it is written.",
	}
	caContent = schema.Attr[string]{
		Name:        "content",
		Doc:         "The CA, PEM.",
		DefaultText: "`pem` of the only fetch-ca",
		Ref:         &schema.RefDefault{Stage: "fetch-ca", Output: "pem"},
	}

	configPath = schema.Attr[string]{
		Name: "path",
		DefaultText: "`/var/lib/kubelet/config.yaml`; with `layout = \"drop-in\"` " +
			"`/etc/kubernetes/kubelet.conf.d/90-prelet.conf`",
		Check: checkKubeletPath,
		Phase: schema.Gather,
		Doc:   "Where it is written.",
	}
	configBase = schema.Attr[string]{
		Name:  "base",
		Phase: schema.Gather,
		DefaultText: "key `kubelet` of the only fetch-config with `config_map`; " +
			"with `layout = \"drop-in\"` the text of config.yaml",
		Ref: &schema.RefDefault{
			Stage:    stages.FetchConfig,
			Output:   "data",
			Key:      "kubelet",
			Having:   "config_map",
			Optional: true,
			Unless:   schema.Given{Attribute: "layout", Value: "drop-in"},
		},
		Doc: "A KubeletConfiguration, YAML: what the node has before decide adds to it.",
	}
	configPatch = schema.Attr[cty.Value]{
		Name:   "patch",
		Check:  checkPatch,
		Secret: "Every pod that may read /configz sees the kubelet's configuration. Write it to a separate file.",
		Doc: "A JSON merge patch: objects merge, null takes a field of the base away, lists replace. " +
			"Unlike RFC 7386, null in an object that the base does not have makes no empty object: an " +
			"empty `evictionHard` would switch all thresholds off.",
	}
	configLayout = schema.Attr[string]{
		Name:    "layout",
		Default: "file",
		OneOf:   []string{"file", "drop-in"},
		Phase:   schema.Gather,
		Doc: "`file` writes the whole configuration; `drop-in` leaves config.yaml alone " +
			"and writes a drop-in with the changes.",
	}

	flagsBase = schema.Attr[string]{
		Name:        "base",
		Phase:       schema.Gather,
		DefaultText: "what the file held before prelet",
		Doc:         "The text of the environment file.",
	}
	flagsValues = schema.Attr[cty.Value]{
		Name:   "flags",
		Type:   cty.Map(cty.String),
		Secret: "Every user of the node can read the kubelet's command line.",
		Doc: "Flags by name, without dashes in front; `_` is `-`, as for the kubelet. " +
			"Null adds none, and leaves one of the base.",
	}
	flagsPath = schema.Attr[string]{
		Name:        "path",
		Phase:       schema.Gather,
		DefaultText: "`/etc/default/kubelet`, or `/etc/sysconfig/kubelet` on rpm systems",
		Check:       checkKubeletPath,
		Doc:         "The environment file.",
	}
	flagsVariable = schema.Attr[string]{
		Name:    "variable",
		Phase:   schema.Gather,
		Default: "KUBELET_EXTRA_ARGS",
		Check:   checkVariable,
		Doc:     "The variable in it that holds the flags.",
	}
	flagsTaints = schema.Attr[string]{
		Name:    "taints",
		Default: "auto",
		OneOf:   []string{"auto", "flag", "config"},
		Doc: "Where registration taints go: `flag` (`--register-with-taints`), " +
			"`config` (`registerWithTaints`, since 1.23), or `auto`: " +
			"the flag if the base has it or the kubelet is too old, else the configuration.",
	}

	filePath = schema.Attr[string]{
		Name:     "path",
		Required: true,
		Null:     nullNext,
		NullCode: fault.PathInvalid,
		Check:    checkPath,
		Doc: "Absolute. Missing folders above it are made, 0755, with the owner of the folder above. " +
			"[Some places are refused](paths.md).",
	}
	fileContent = schema.Attr[cty.Value]{
		Name:     "content",
		Type:     cty.String,
		Required: true,
		Null:     nullNext + " For an empty file write \"\".",
		Doc:      "Its text. With a secret in it, the file is sensitive whole, and its mode is 0600 or up to 0640.",
	}
	fileMode = schema.Attr[string]{
		Name:        "mode",
		DefaultText: "that of the file before prelet; new: `0644`, with a secret `0600`",
		Check:       checkFileMode,
		Doc:         "Octal, `0001` to `0777`; with a secret in the file at most `0640`.",
	}
	fileOwner = schema.Attr[string]{
		Name:        "owner",
		DefaultText: "that of the file before prelet; new: root, or that of its folder",
		Check:       checkOwner,
		Doc:         "`USER:GROUP`, names or numbers.",
	}
	createOnly = schema.Attr[bool]{
		Name:    "create_only",
		Default: false,
		Doc:     "Only if there is none: never overwritten, never removed.",
	}

	fileForce = schema.Attr[string]{
		Name:        "force",
		DefaultText: "none",
		Check:       checkForce,
		Doc: "Why this site writes a [file of the system](paths.md#files-of-the-system). " +
			"Without it such a path is an error; plan and status show the reason.",
	}
	fileNotify = schema.Attr[[]string]{
		Name:        "notify",
		Refs:        "restart",
		DefaultText: "[by its path](../operators/files.md)",
		Doc: "The stages whose units are acted on when it changes: " +
			"`[stage.restart.NAME]`, in JSON `[\"stage.restart.NAME\"]`. `[]` is none. " +
			"A stage that is left out by its `when` is not notified.",
	}

	dirPath = schema.Attr[string]{
		Name:     "path",
		Required: true,
		Null:     nullNext,
		NullCode: fault.PathInvalid,
		Check:    checkPath,
		Doc:      "Absolute. Missing parents are made as well. [Some places are refused](paths.md).",
	}
	dirMode = schema.Attr[string]{
		Name:        "mode",
		DefaultText: "that of the folder before prelet; new: `0755`",
		Check:       checkFolderMode,
		Doc:         "Octal, `0001` to `1777` without setgid.",
	}
	dirOwner = schema.Attr[string]{
		Name:        "owner",
		DefaultText: "that of the folder before prelet; new: root, or that of its parent",
		Check:       checkOwner,
		Doc:         "`USER:GROUP`, names or numbers.",
	}
	dirForce = schema.Attr[string]{
		Name:        "force",
		DefaultText: "none",
		Check:       checkForce,
		Doc:         "As in `file`.",
	}
	dirNotify = schema.Attr[[]string]{
		Name:        "notify",
		Refs:        "restart",
		DefaultText: "none",
		Doc:         "As in `file`; for the folder itself, its mode and owner, and not for what is in it.",
	}
)

// Stage implements stages.Renderer and stages.Baser.
type Stage struct{}

// Spec implements stages.Stage.
func (Stage) Spec() stages.Spec {
	return stages.Spec{
		Phase:     schema.Render,
		Singleton: true,
		Adds:      []string{"file", "directory"},
		Block: schema.Block{
			Type: stages.Write,
			Doc: "Renders the kubelet's files. The four blocks of the kubelet are there whether they " +
				"are written or not; writing one changes it, `when = false` leaves it out. " +
				"What is there before decide (`base`) refers to gather stages only.",
			Blocks: []schema.Block{
				{
					Type:    "bootstrap_kubeconfig",
					Max:     1,
					Always:  true,
					ForEach: true,
					Doc: "What the kubelet joins with; planned only while the node has not joined, " +
						"and removed when it has.",
					Fields: []schema.Field{bootPath, bootServer, bootCA},
				},
				{
					Type:    "ca_certificate",
					Max:     1,
					Always:  true,
					ForEach: true,
					Doc:     "The cluster's CA.",
					Fields:  []schema.Field{caPath, caContent},
				},
				{
					Type:    "kubelet_config",
					Max:     1,
					Always:  true,
					ForEach: true,
					Doc: "KubeletConfiguration, as a document: what prelet does not know stays as it is. " +
						"If `resolvConf` is not set and systemd-resolved is active, " +
						"it is `/run/systemd/resolve/resolv.conf`, as kubeadm writes it at a join; " +
						"that is decided once, before the first generation. `\"\"` and null are set.",
					Fields: []schema.Field{configBase, configPatch, configLayout, configPath},
				},
				{
					Type:    "kubelet_flags",
					Max:     1,
					Always:  true,
					ForEach: true,
					Doc: "The kubelet's flags, in an environment file. Only changed flags are touched; " +
						"all other text stays byte for byte. What else the kubelet gets, " +
						"from kubeadm's `/var/lib/kubelet/kubeadm-flags.env` and from its unit, " +
						"is in the plan with its place, and is never written; " +
						"flags behind them win, with a warning.",
					Fields: []schema.Field{flagsBase, flagsValues, flagsPath, flagsVariable, flagsTaints},
				},
				{
					Type:    "file",
					Labels:  []string{"name"},
					ForEach: true,
					Doc:     "A file.",
					Fields: []schema.Field{
						filePath, fileContent, fileMode, fileOwner, createOnly, fileForce, fileNotify,
					},
				},
				{
					Type:    "directory",
					Labels:  []string{"name"},
					ForEach: true,
					Doc:     "A folder.",
					Fields:  []schema.Field{dirPath, dirMode, dirOwner, dirForce, dirNotify},
				},
			},
		},
	}
}

// Outputs implements stages.Stage.
func (Stage) Outputs(stages.Declared) cty.Type {
	return cty.Object(map[string]cty.Type{"files": cty.List(cty.String)})
}

// isOddNumber reports whether a text looks like a number that is not a decimal id, such as -1, 0x0 or 1e3. No name of a
// user begins with a sign.
func isOddNumber(id string) bool {
	_, intErr := strconv.ParseInt(id, 0, 64)
	_, floatErr := strconv.ParseFloat(id, 64)
	isDecimal := strings.Trim(id, "0123456789") == ""
	isNumber := '0' <= id[0] && id[0] <= '9' && (intErr == nil || floatErr == nil)

	return id[0] == '-' || id[0] == '+' || isNumber && !isDecimal
}

func checkOwner(s string) error {
	u, g, ok := strings.Cut(s, ":")
	isPair := ok && u != "" && g != "" && !strings.Contains(g, ":")
	if !isPair || strings.ContainsAny(s, " /\n\x00") {
		return fmt.Errorf("%q is not an owner; write USER:GROUP", s)
	}

	for _, id := range []string{u, g} {
		if isOddNumber(id) {
			return fmt.Errorf("%q is not a name and not a decimal id; write USER:GROUP", id)
		}
		n, err := strconv.ParseUint(id, 10, 64)
		isTooHigh := err == nil && n >= math.MaxUint32 || errors.Is(err, strconv.ErrRange)
		if isTooHigh {
			return fmt.Errorf("%s is not an id; the highest is %d", id, uint32(math.MaxUint32-1))
		}
	}

	return nil
}

func checkPatch(patch cty.Value) error {
	if t := patch.Type(); !t.IsObjectType() && !t.IsMapType() {
		return errors.New("an object with fields of KubeletConfiguration is needed")
	}

	return nil
}

func checkVariable(s string) error {
	if s == "" {
		return errors.New("the name of a variable is needed, for example KUBELET_EXTRA_ARGS")
	}
	for i, r := range s {
		isLetter := r == '_' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
		isDigit := r >= '0' && r <= '9'
		if !isLetter && (i == 0 || !isDigit) {
			return fmt.Errorf("%q is not a valid name of a variable", s)
		}
	}

	return nil
}

// listNotified returns the names of the stages that a block notifies; nil if it has no `notify`.
func listNotified(v schema.Value[[]string]) []string {
	if v.Expr == nil || !v.Set() {
		return nil
	}

	return append([]string{}, v.V...)
}

// parsePermissions returns permissions; 0 if the site sets none.
func parsePermissions(v schema.Value[string]) uint32 {
	n, _ := strconv.ParseUint(v.V, 8, 32)

	return uint32(n)
}

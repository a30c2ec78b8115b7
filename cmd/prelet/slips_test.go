package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/internal/testing/sample"
)

// slip is a mistake of a person: a part of a site, values in a vars file, or a command line.
type slip struct {
	name, site, values string
	args               []string // without a site
	files              string   // with args: a txtar archive
	// What the message must have: the place, what is wrong, and the next step.
	place, phrase, next string
}

// beforeSlips begins the site of a slip.
const beforeSlips = `cluster {
  servers        = ["10.0.0.1:6443"]
  ca_cert_hashes = ["sha256:0000000000000000000000000000000000000000000000000000000000000000"]
  token          = credential("bootstrap-token")
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "detect-hw" "node" {}
`

// TestSlips checks what prelet reports for mistakes that people make: each message has a place, names what is wrong,
// and says what to write instead. TestMistakes has whole messages.
func TestSlips(t *testing.T) {
	t.Parallel()
	all := slips()
	if len(all) < 60 {
		t.Errorf("got %d mistakes, want at least 60", len(all))
	}
	chosen := sample.New(t)
	for _, s := range all {
		if !chosen.Has(sample.Quarter(1), s.name) {
			continue
		}
		dir := t.TempDir()
		args := s.args
		if args == nil {
			after := "\nstage \"write\" \"kubelet\" {}\n"
			if strings.Contains(s.site, `stage "write"`) {
				after = "\n"
			}
			text := beforeSlips
			if strings.HasPrefix(s.site, "cluster") || strings.Contains(s.site, "fetch-config") {
				text = strings.Repeat("\n", 5) + "stage \"fetch-ca\" \"cluster\" {}\n\nstage \"detect-hw\" \"node\" {}\n"
			}
			text += s.site + after + "stage \"restart\" \"kubelet\" {}\n"
			osfile.WriteTree(t, dir, map[string]string{"a.hcl": text, "b.preletvars.hcl": s.values})
			args = []string{"validate", "--strict", "."}
		}

		for _, f := range txtar.Parse([]byte(s.files)).Files {
			osfile.Write(t, filepath.Join(dir, f.Name), f.Data, 0o600)
		}

		c := exec.Command("prelet", args...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		if err == nil {
			t.Errorf("%s: got status 0, want another one\n%s", s.name, out)
		}
		for what, want := range map[string]string{"place": s.place, "phrase": s.phrase, "next step": s.next} {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: the %s: got\n%s\nwant %q", s.name, what, out, want)
			}
		}
	}
}

// slips returns the mistakes. Line 9 is the first one of a part of a site.
func slips() []slip {
	label := func(value string) string { return `stage "label" "l" { labels = { "a.b/c" = ` + value + ` } }` }
	file := func(lines string) string {
		return "stage \"write\" \"w\" {\n  file \"a\" {\n    " + lines + "\n  }\n}"
	}
	config := func(patch string) string {
		return "stage \"write\" \"w\" {\n  kubelet_config {\n    patch = { " + patch + " }\n  }\n}"
	}
	flags := func(flags string) string {
		return "stage \"write\" \"w\" {\n  kubelet_flags {\n    flags = { " + flags + " }\n  }\n}"
	}
	reserve := func(lines string) string { return "stage \"reserve\" \"r\" {\n  " + lines + "\n}" }
	amounts := func(line string) string { return reserve("policy = \"static\"\n  static {\n    " + line + "\n  }") }
	const ofMachine = "-- a.hcl --\nstage \"detect-hw\" \"n\" {}\n"
	machine := func(name, facts, place, next string) slip {
		return slip{name: name, files: ofMachine + "-- m.json --\n{" + facts + "}\n", place: place,
			args: []string{"plan", "--config", "a.hcl", "--hardware", "m.json"}, phrase: facts + "}", next: next}
	}
	ofVar := func(name, kind, given, next string) slip {
		return slip{name: name, args: []string{"eval", "var.a", "--config", "a.hcl", "--var", given},
			files: "-- a.hcl --\nvariable \"a\" { type = " + kind + " }\nstage \"detect-hw\" \"n\" {}\n", place: "a.hcl:1:1",
			phrase: "in single quotes", next: next}
	}
	object := func(name, text, place, phrase, next string) slip {
		return slip{name: name,
			files: "-- a.hcl --\n" + strings.SplitAfter(beforeSlips, "\n}\n")[0] +
				"stage \"fetch-config\" \"k\" { config_map = \"a/b\" }\n-- m.json --\n{}\n-- a/b.yaml --\n" + text,
			args:  []string{"plan", "--config", "a.hcl", "--hardware", "m.json", "--objects", "."},
			place: "a/b.yaml" + place, phrase: phrase + "\n", next: next}
	}
	const comparison = "A comparison is written =="
	const dots = "max(LIST...)"

	return []slip{
		// The language.
		{name: "= in a condition",
			site:  "stage \"label\" \"l\" {\n  when   = length(stage.detect-hw.node.gpus) = 0\n  labels = {}\n}",
			place: "a.hcl:10:46", phrase: "= gives an argument its value", next: comparison},
		{name: "= in a for", site: "locals {\n  a = [for g in [1] : g if g = 0]\n}", place: "a.hcl:10:30",
			phrase: "'for'", next: comparison},
		{name: "= of a number", site: "locals { a = 124 = 0 }", place: "a.hcl:9:18", next: comparison},
		{name: "a heredoc without an end", site: file("path = \"/etc/motd\"\n    content = <<EOT\nhello"),
			place: "a.hcl:12:15", phrase: "A heredoc without an end", next: "a line with only EOT"},
		{name: "a heredoc whose end has more", site: file("path = \"/etc/motd\"\n    content = <<EOT\nhello\nEOT;"),
			place: "a.hcl:12:15", phrase: "Line 14 has other text", next: "put that into the next line"},
		{name: "a text and its prefix exchanged",
			site:  label(`startswith("PowerEdge", stage.detect-hw.node.product.name) ? "dell" : "other"`),
			place: "a.hcl:9:53", phrase: `startswith searches the text "PowerEdge"`, next: `Write startswith(TEXT, "PowerEdge").`},
		{name: "a list for max", site: label(`"${max([1, 2])}"`), place: "a.hcl:9:49", phrase: "have tuple",
			next: dots},
		{name: "a list for min",
			site:  "locals {\n  a = [for g in stage.detect-hw.node.gpus : g.numa]\n}\n" + label(`"${min(local.a)}"`),
			place: "a.hcl:12:49", phrase: "number required", next: dots},
		{name: "a part that a text does not have", site: label(`split("/", "10.1.2.3")[1]`), place: "a.hcl:9:64",
			phrase: `"10.1.2.3" has no "/"`, next: "write try(…, null)"},
		{name: "an octal number of YAML", site: label(`split("x", yamldecode("rack: 0815").rack)[1]`), place: "a.hcl:9:83",
			phrase: "no leading zeros", next: "write it in quotes"},
		{name: "a label's value in a local", site: "locals { rack = \"a b\" }\n" + label("local.rack"),
			place: "a.hcl:9:17", phrase: "It is the value of local.rack, used at a.hcl:10:42", next: "slug()"},
		{name: "an override with labels", site: "override \"label\" \"l\" {}", place: "a.hcl:9:1",
			phrase: "Wrong labels", next: `override { stage "label" "l" { … } }`},
		{name: "a detector of another name", site: "detector \"nvida\" {}", place: "a.hcl:9:1",
			phrase: `No detector "nvida" is known`, next: `Did you mean "nvidia"`},
		{name: "a space in --var", args: []string{"plan", "--var", "ring", "canary"},
			phrase: "--var needs a name and a value", next: "did you mean --var ring=canary?"},
		{name: "a path of Terraform", site: file("path = \"/etc/motd\"\n    content = \"${path.module}\""),
			place: "a.hcl:12:18", phrase: `Unknown name "path"`, next: "templatefile(NAME, VARS)"},
		{name: "a default of a shell", site: file("path = \"/etc/motd\"\n    content = \"${HOME:-/root}\""),
			place: "a.hcl:12:22", phrase: "as for another language", next: "$${"},
		{name: "an expression of GitHub", site: file("path = \"/etc/motd\"\n    content = \"${{ github.ref }}\""),
			place: "a.hcl:12:31", phrase: "${ in a text begins a reference", next: "$${"},
		{name: "two arguments in a line", site: "stage \"label\" \"l\" { labels = {} when = true }",
			place: "a.hcl:9:33",
			next:  "Write each argument of a block in a line of its own"},
		{name: "import", site: "import \"base.hcl\"", place: "a.hcl:9:18", phrase: "layers instead",
			next: "--config"},
		{name: "len", site: "locals { a = len([1]) }", place: "a.hcl:9:14", phrase: `Unknown function "len"`,
			next: "length(LIST)"},
		{name: "a fact without its unit", site: label("stage.detect-hw.node.gpus[0].memory"), place: "a.hcl:9:70",
			phrase: `has no "memory"`, next: `"memory_gib"`},
		{name: "a comma between lines", site: "locals {\n  a = [\n    1\n    2,\n  ]\n}", place: "a.hcl:11:6",
			phrase: "Missing item separator", next: "at the end of line 11"},
		{name: "a type of a list", site: `variable "a" { type = "list" }`, place: "a.hcl:9:23", phrase: "without quotes",
			next: "type = list(string)"},
		{name: "a condition in quotes",
			site:  "stage \"label\" \"l\" {\n  when   = \"length(stage.detect-hw.node.gpus) > 0\"\n  labels = {}\n}",
			place: "a.hcl:10:12", phrase: "A bool is needed", next: "Remove the quotes: length(stage.detect-hw.node.gpus) > 0"},
		{name: "a number for a condition",
			site:  "stage \"label\" \"l\" {\n  when   = length(stage.detect-hw.node.gpus)\n  labels = {}\n}",
			place: "a.hcl:10:12", phrase: "this is a number", next: "NUMBER > 0"},
		{name: "arguments of contains", site: label(`contains("ubuntu", stage.detect-hw.node.os.id_like) ? "a" : "b"`),
			place: "a.hcl:9:42", phrase: "must be list", next: "contains(LIST, VALUE)"},
		{name: "a pattern that does not match", site: label(`regex("H([0-9]+)", stage.detect-hw.node.cpu.model)[0]`),
			place: "a.hcl:9:42", phrase: "did not match", next: "try(regex("},
		{name: "the greatest of none", site: label(`max([for n in stage.detect-hw.node.nics : n.speed_gbps if n.speed_gbps != null]...)`),
			place: "a.hcl:9:42", phrase: "at least one number", next: "length(LIST) > 0 ? max(LIST...) : null"},
		{name: "nulls in a list", site: label(`max([for n in stage.detect-hw.node.nics : n.speed_gbps]...)`),
			place: "a.hcl:9:46", phrase: "must not be null", next: "if x != null"},
		{name: "a list in a text", site: label(`"n-${stage.detect-hw.node.gpus}"`), place: "a.hcl:9:47",
			phrase: "have list", next: "length(LIST)"},
		{name: "a choice of two types", site: label(`true ? "a" : ["b"]`), place: "a.hcl:9:49",
			phrase: "Inconsistent", next: "in the same form"},
		{name: "an interface", site: label("stage.detect-hw.node.interfaces.wan7.mac"), place: "a.hcl:9:73",
			phrase: `"wan7"`, next: "There is: "},
		{name: "a part of a byte", site: amounts(`memory = "0.3Gi"`), place: "a.hcl:12:14",
			phrase: "not a whole number of bytes", next: "floor(BYTES)"},
		{name: "a block of another policy", site: reserve("policy = \"gke\"\n  static { cpu = \"2\" }\n  max_pods = \"x\""),
			place: "a.hcl:11:3", phrase: "is not used", next: `policy = "static"`},
		{name: "an amount to evict without a unit", site: config(`evictionHard = { "memory.available" = "500" }`),
			place: "a.hcl:11:33", phrase: "500 bytes", next: "500Mi"},
		{name: "the path of a credential", site: file("path = \"/etc/a\"\n    content = credential(\"/etc/credstore/key\")"),
			place: "a.hcl:12:27", phrase: "without its folder", next: `credential("key")`},
		{name: "a stage for its text", site: "stage \"fetch-config\" \"k\" { file = \"/etc/a\" }\n" +
			"stage \"write\" \"w\" {\n  kubelet_config { base = stage.fetch-config.k }\n}",
			place: "a.hcl:11:27", phrase: "A string is needed", next: `data["kubelet"]`},
		{name: "a percentage for a number", site: config(`imageGCHighThresholdPercent = "85%"`), place: "a.hcl:11:45",
			phrase: "a whole number", next: "Write 85."},
		{name: "a text for a list of the kubelet", site: config(`clusterDNS = "10.96.0.10"`), place: "a.hcl:11:28",
			phrase: "it must be a list", next: `["10.96.0.10"]`},
		{name: "a text for gates", site: config(`featureGates = "A=true"`), place: "a.hcl:11:30",
			phrase: "it must be an object", next: "{ NAME = VALUE }"},
		{name: "a word without quotes in a vars file", site: "variable \"rack\" {}\n" + label("var.rack"), values: "rack = r1",
			place: "b.preletvars.hcl:1:8", phrase: "must be a literal", next: "a text is in quotes"},
		{name: "a word for a bool", site: label(`stage.detect-hw.node.cpu.smt == "true" ? "a" : "b"`),
			place: "a.hcl:9:42", phrase: "never true", next: "Write true."},
		{name: "a text for a number", site: label(`length(stage.detect-hw.node.gpus) == "8" ? "a" : "b"`),
			place: "a.hcl:9:42", phrase: "A number is compared with a string", next: "Write 8."},
		{name: "a word of a fact in a loop",
			site:  label(`length([for n in stage.detect-hw.node.nics : n if n.link != "UP"])`),
			place: "a.hcl:9:92", phrase: `nics.link is never "UP"`, next: `Did you mean "up"?`},
		{name: "a word of a fact", site: label(`length(where(local.all, { vendor = "NVIDIA" }))`) +
			"\nlocals { all = stage.detect-hw.node.gpus }",
			place: "a.hcl:9:77", phrase: `gpus.vendor is never "NVIDIA"`, next: `"nvidia"`},
		{name: "a wait without its timeout", site: "stage \"fetch-config\" \"c\" {\n  file = \"/etc/a\"\n  wait = \"4m\"\n}",
			place: "a.hcl:11:10", phrase: "the timeout of its stage ends it after 3m0s", next: "Raise that"},
		{name: "a wait for links", site: "override {\n  stage \"detect-hw\" \"node\" {\n    wait {\n      links   = [\"eth0\"]\n" +
			"      timeout = \"2m\"\n    }\n  }\n}",
			place: "a.hcl:13:17", phrase: "ends it after 1m30s", next: "Raise that"},
		{name: "a deadline that is short", site: "prelet { deadline = \"1m\" }\ndetector \"nvidia\" { timeout = \"10m\" }",
			place: "a.hcl:10:31", phrase: "longer than the deadline", next: "Raise that"},

		// Values of variables: the place is the vars file.
		{name: "a network in a vars file",
			site:   "variable \"net\" {}\n" + label(`cidrcontains(var.net, "10.1.2.3") ? "a" : "b"`),
			values: `net = "10.1.0.0"`,
			place:  "b.preletvars.hcl:1:7", phrase: `"10.1.0.0" is not a network`, next: "used at a.hcl:10:55"},
		{name: "a pin in a vars file",
			site:   "cluster {\n  servers        = [\"10.0.0.1:6443\"]\n  ca_cert_hashes = var.pins\n}\nvariable \"pins\" { type = list(string) }",
			values: `pins = ["sha256:00"]`, place: "b.preletvars.hcl:1:8", phrase: "invalid pin",
			next: "64 hex digits"},
		{name: "an amount in a vars file", site: "variable \"mem\" {}\n" + amounts("memory = var.mem"),
			values: `mem = "512mi"`,
			place:  "b.preletvars.hcl:1:7", phrase: `invalid quantity "512mi"`, next: `did you mean "512Mi"?`},
		{name: "a taint in a vars file", site: "variable \"t\" {}\nstage \"taint\" \"t\" { taints = [var.t] }",
			values: `t = "a=b:noschedule"`,
			place:  "b.preletvars.hcl:1:5", phrase: "invalid effect", next: "did you mean NoSchedule?"},
		{name: "a label in a vars file", site: "variable \"z\" {}\n" + label("var.z"), values: `z = "a b"`,
			place: "b.preletvars.hcl:1:5", phrase: `invalid value "a b"`, next: "slug()"},
		{name: "a deadline from a variable",
			site:  "variable \"d\" { default = \"60s\" }\nprelet { deadline = var.d }",
			place: "a.hcl:10:21", phrase: "deadline must be a literal", next: "no references"},

		// Values.
		{name: "a unit in lower case", site: amounts(`memory = "512mi"`), place: "a.hcl:12:14",
			phrase: "invalid quantity", next: `did you mean "512Mi"?`},
		{name: "thousandths of a byte", site: amounts(`memory = "512m"`), place: "a.hcl:12:14", phrase: "too fine",
			next: `did you mean "512Mi"?`},
		{name: "a unit with B", site: amounts(`memory = "8GB"`), place: "a.hcl:12:14", phrase: "invalid quantity",
			next: `did you mean "8Gi"?`},
		{name: "an amount of cores", site: amounts(`cpu = "2 cores"`), place: "a.hcl:12:11",
			phrase: "invalid quantity", next: `did you mean "2"?`},
		{name: "a list of CPUs for a number", site: reserve("policy = \"gke\"\n  topology { cores = \"0-3\" }"),
			place: "a.hcl:11:22", phrase: "It is how many", next: "reservedSystemCPUs"},
		{name: "cores in static", site: amounts("cores = 2"), place: "a.hcl:12:5",
			phrase: "no argument of this name", next: "topology { cores = 2 }"},
		{name: "a policy in capitals", site: reserve(`policy = "GKE"`), place: "a.hcl:10:12",
			phrase: "is not one of", next: `"gke"`},
		{name: "a taint without an effect", site: `stage "taint" "t" { taints = ["a=b"] }`, place: "a.hcl:9:31",
			phrase: "no effect", next: "a=b:NoSchedule"},
		{name: "a map of taints", site: `stage "taint" "t" { taints = { a = "b" } }`, place: "a.hcl:9:30",
			phrase: "A list of string is needed", next: "KEY=VALUE:EFFECT"},

		// The kubelet.
		{name: "a driver", site: config(`cgroupDriver = "systemmd"`), place: "a.hcl:11:30", phrase: "is unknown",
			next: "Did you mean systemd?"},
		{name: "a feature gate", site: config("featureGates = { DynamicResourceAlocation = true }"),
			place: "a.hcl:11:32", phrase: "unrecognized feature gate", next: "DynamicResourceAllocation?"},
		{name: "a number for a text", site: config(`evictionHard = { "memory.available" = 100 }`),
			place: "a.hcl:11:33", phrase: "it must be a text", next: "in quotes"},
		{name: "dashes of a flag", site: flags(`"--max-pods" = "5"`), place: "a.hcl:11:30", phrase: "has no dashes",
			next: `"max-pods"`},

		// Detectors.
		{name: "facts of no detector", site: label("stage.detect-hw.node.detectors.nvidia.attributes.mig"),
			place: "a.hcl:9:72", phrase: `has no "nvidia"`, next: `detector "nvidia" {}`},
		{name: "a block as an argument", site: "detector \"nvidia\" {\n  config = {}\n}", place: "a.hcl:10:3",
			phrase: "config is a block", next: "config { … }"},
		{name: "an argument of a detector", site: `detector "nvidia" { require = true }`, place: "a.hcl:9:21",
			phrase: "Unknown argument", next: `"required"`},
		{name: "a name of a detector", site: `detector "Nvidia" {}`, place: "a.hcl:9:1",
			phrase: "lower-case letters", next: "lock the program again"},
		{name: "no detector to lock", args: []string{"detectors", "lock"}, phrase: "takes the paths of detectors"},

		{name: "a path without quotes", site: file("path = /etc/motd"), place: "a.hcl:11:12",
			phrase: "A text without quotes", next: `Write "/etc/motd".`},
		{name: "a duration without quotes", site: "override {\n  stage \"fetch-ca\" \"cluster\" { timeout = 30s }\n}", place: "a.hcl:10:42",
			phrase: "A text without quotes", next: `Write "30s".`},
		{name: "an amount without quotes", site: config("kubeReserved = { cpu = 500m }"), place: "a.hcl:11:38",
			phrase: "A text without quotes", next: `Write "500m".`},
		{name: "a taint without quotes", site: "stage \"taint\" \"t\" { taints = [a.b/c=d:NoSchedule] }", place: "a.hcl:9:31",
			phrase: "A text without quotes", next: `Write "a.b/c=d:NoSchedule".`},
		{name: "a default without quotes", site: "variable \"a\" { default = canary }", place: "a.hcl:9:26",
			phrase: "must be a literal", next: `in quotes: "canary"`},
		{name: "the name of the node in a label", site: label("node.name"), place: "a.hcl:9:46",
			phrase: `node has no "name"`, next: "kubernetes.io/hostname"},
		{name: "an override without a required argument", site: "override {\n  cluster { servers = null }\n}", place: "a.hcl:10:23",
			phrase: "Missing argument", next: "remove this line"},
		{name: "an effect after =", site: "stage \"taint\" \"t\" { taints = [\"a.b/c=true=NoSchedule\"] }", place: "a.hcl:9:31",
			phrase: "no effect", next: "write a.b/c=true:NoSchedule ("},
		{name: "a misspelt setting of a drop-in", site: file("path = \"/etc/systemd/system/kubelet.service.d/20-a.conf\"\n" +
			"    content = \"[Service]\\nEnviroment=A=b\\n\""), place: "a.hcl:12:15",
			phrase: "no setting Enviroment=", next: "Write Environment=."},
		{name: "a module's file as a driver", site: "override {\n  stage \"detect-hw\" \"node\" {\n" +
			"    wait { drivers = [\"nvidia.ko.xz\"] }\n  }\n}", place: "a.hcl:11:23", phrase: "is a file", next: `did you mean "nvidia"?`},
		{name: "a drop-in without a section", site: file("path = \"/etc/systemd/system/kubelet.service.d/20-a.conf\"\n" +
			"    content = \"CPUQuota=50%\\n\""), place: "a.hcl:12:15", phrase: "systemd ignores line 1 of",
			next: "Write [Service]"},
		{name: "a section of a drop-in", site: file("path = \"/etc/systemd/system/kubelet.service.d/20-a.conf\"\n" +
			"    content = \"[Sevice]\\nCPUQuota=50%\\n\""), place: "a.hcl:12:15", phrase: "systemd ignores line 2 of",
			next: "Write [Service]"},

		// Files that a person edits: the line of that file is shown, and where it is used.
		machine("a kind in capitals", `"accelerators": [{"kind": "GPU"}]`, "m.json:1:28", `Did you mean "gpu"?`),
		machine("a short PCI address", `"pci": [{"address": "1B:00.0"}]`, "m.json:1:22", `Write "0000:1b:00.0"`),
		machine("an identifier in capitals", `"pci": [{"device": "10DE:2330"}]`, "m.json:1:21", `Write "10de:2330"`),
		machine("a MAC with dashes", `"interfaces": {"eth0": {"mac": "02-00-5E-00-53-01"}}`, "m.json:1:33",
			`Write "02:00:5e:00:53:01"`),
		machine("an architecture of uname", `"cpu": {"architecture": "x86_64"}`, "m.json:1:26", "amd64"),
		object("a List", "kind: List\nitems: []\n", ":1:1", "kind: List", "a file of its own"),
		object("another name", "kind: ConfigMap\nmetadata:\n  name: x\n", ":3:3", "name: x", "move the file"),
		object("a key of metadata", "kind: ConfigMap\nmetadata:\n  nmae: x\n", ":3:3", "nmae: x", `"name"`),
		object("a text without quotes", "kind: ConfigMap\ndata:\n  a: b: c\n", ":3:3", "a: b: c", "in quotes"),
		object("a tab", "kind: ConfigMap\ndata:\n\ta: b\n", ":3:2", "a: b", "with spaces"),
		object("two documents", "kind: ConfigMap\n---\nkind: ConfigMap\n", ":3:1", "kind: ConfigMap", "of their own"),

		{name: "a shell's variable in a template",
			files: "-- s/a.hcl --\nstage \"write\" \"w\" {\n  file \"a\" {\n    path    = \"/etc/motd\"\n" +
				"    content = templatefile(\"m.tftpl\", { role = \"a\" })\n  }\n}\n" +
				"-- s/m.tftpl --\n${role} ${HOSTNAME}\n",
			args: []string{"validate", "s"}, place: "a.hcl:4:15", phrase: `uses "HOSTNAME"`, next: "write $${HOSTNAME}"},
		{name: "a variable that the template does not use",
			files: "-- s/a.hcl --\nstage \"write\" \"w\" {\n  file \"a\" {\n    path    = \"/etc/motd\"\n" +
				"    content = templatefile(\"m.tftpl\", { role = \"a\", rack = \"b\" })\n  }\n}\n" +
				"-- s/m.tftpl --\n${role}\n",
			args: []string{"validate", "--strict", "s"}, place: "a.hcl:4:53", phrase: `m.tftpl does not use "rack"`,
			next: "as ${rack}, or remove it here. The template uses: role."},

		// The command line.
		{name: "apply", args: []string{"apply"}, phrase: `unknown command "apply"`, next: "`prelet run`"},
		{name: "an argument of plan", args: []string{"plan", "site"}, phrase: "takes no arguments",
			next: "--config site"},
		{name: "--dry-run", args: []string{"run", "--dry-run"}, phrase: "unknown flag: --dry-run",
			next: "`prelet plan` shows"},
		{name: "--json", args: []string{"plan", "--json"}, phrase: "unknown flag: --json", next: "-o json"},
		{name: "--yaml", args: []string{"status", "--yaml"}, phrase: "unknown flag: --yaml", next: "-o yaml"},
		{name: "-c", args: []string{"plan", "-c", "site"}, phrase: "'c'", next: "--config"},
		{name: "a format", args: []string{"plan", "-o", "jsn"}, phrase: "-o jsn", next: "json"},
		{name: "--var without a value", args: []string{"plan", "--var", "zone"}, phrase: "--var zone",
			next: "NAME=VALUE"},
		{name: "no such recording", args: []string{"plan", "--from", "no.prelet"},
			phrase: "--from no.prelet: no such recording"},
		{name: "the name of a recording", args: []string{"record", "x.txt"}, phrase: "x.txt", next: ".prelet.gz"},
		{name: "a version", args: []string{"validate", "--kubelet-version", "v1"}, phrase: "--kubelet-version v1",
			next: `"1.37"`},
		{name: "-var", args: []string{"plan", "-var", "a=b"}, phrase: "in -var", next: "did you mean --var?"},
		{name: "--out", args: []string{"record", "--out", "x.prelet"}, phrase: "unknown flag: --out",
			next: "write the file as an argument"},
		{name: "an expression and a site", args: []string{"eval", "site", "1"}, phrase: "one EXPR", next: "--config"},
		{name: "folders with a comma", args: []string{"plan", "--config", "a,b"}, phrase: "no such file",
			next: "--config A --config B"},
		{name: "a folder to compare with", args: []string{"plan", "--config", "a.hcl", "--against", "nope"},
			files:  "-- a.hcl --\n-- node.hcl --\n",
			phrase: "--against nope: no such file or folder", next: "this folder is not in a repository of git"},
		{name: "a folder to compare with, misspelt", args: []string{"plan", "--config", "a.hcl", "--against", "nod.hcl"},
			files: "-- a.hcl --\n-- node.hcl --\n", phrase: "nod.hcl: no such file", next: "did you mean node.hcl?"},
		ofVar("a list in --var", "list(string)", "a=x,y", `--var 'a=["x", "y"]'`),
		ofVar("a list whose quotes are gone", "list(string)", "a=[x]", `--var 'a=["x"]'`),
		ofVar("numbers in --var", "list(number)", "a=1,2", `--var 'a=[1, 2]'`),
		ofVar("an empty map in --var", "map(string)", "a= ", `--var 'a={}'`),
		ofVar("a map in --var", "map(string)", "a={k=v}", `--var 'a={ k = "v" }'`),
		{name: "an empty flag", args: []string{"plan", "--root", ""}, phrase: "--root is empty",
			next: "shell variable"},
		{name: "a generation", args: []string{"rollback", "x"}, phrase: `"x" is not the number`,
			next: "prelet history"},
	}
}

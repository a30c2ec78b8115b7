package lang

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/testing/table"
)

const overrideBase = `-- 10-base.hcl --
prelet { deadline = "5m" }
cluster {
  servers = ["a:1"]
  ca_file = "/ca"
  token   = credential("x")
}
node { name = "n" }
locals {
  a = 1
  b = 2
}
variable "zone" {
  default = "z1"
  validation {
    condition     = var.zone != ""
    error_message = "empty"
  }
}
detector "nvidia" {
  timeout = "8s"
  allow { read = ["/a"] }
  config {
    mig = true
    firmware = { minimum = "1" }
    limits = { a = 1 }
  }
}
stage "reserve" "node" {
  when   = true
  policy = "gke"
  floor  = { memory = "1Gi" }
  topology {
    cores  = 4
    spread = "numa"
  }
}
stage "write" "kubelet" {
  directory "a" {
    path = "/a"
    mode = "0600"
  }
  directory "b" { path = "/b" }
}
stage "restart" "kubelet" {
  precondition {
    condition     = true
    error_message = "a"
  }
}
`

const overrideNative = `-- 50-site.hcl --
override {
  prelet { max_age = "1h" }
  cluster {
    servers        = ["b:2"]
    ca_file        = null
    ca_cert_hashes = ["sha256:x"]
  }
  locals {
    b = 3
    c = 4
  }
  variable "zone" {
    default = null
    validation {
      condition     = var.zone != "mars"
      error_message = "mars"
    }
  }
  detector "nvidia" {
    allow { devices = ["/dev/x"] }
    config {
      firmware = { maximum = "2" }
      limits   = { b = 2 }
    }
  }
  stage "reserve" "node" {
    when   = false
    policy = "static"
    floor  = null
    static { cpu = "2" }
    topology { cores = 8 }
  }
  stage "write" "kubelet" {
    directory "a" { path = "/etc/a" }
    directory "c" { path = "/c" }
  }
  stage "restart" "kubelet" {
    precondition {
      condition     = false
      error_message = "b"
    }
  }
}
`

// The site that base and override give, written out by hand.
const overrideResult = `-- site.hcl --
prelet {
  deadline = "5m"
  max_age  = "1h"
}
cluster {
  servers        = ["b:2"]
  ca_cert_hashes = ["sha256:x"]
  token          = credential("x")
}
node { name = "n" }
locals {
  a = 1
  b = 3
  c = 4
}
variable "zone" {
  validation {
    condition     = var.zone != ""
    error_message = "empty"
  }
  validation {
    condition     = var.zone != "mars"
    error_message = "mars"
  }
}
detector "nvidia" {
  timeout = "8s"
  allow {
    read    = ["/a"]
    devices = ["/dev/x"]
  }
  config {
    mig = true
    firmware = { maximum = "2" }
    limits = { b = 2 }
  }
}
stage "reserve" "node" {
  when   = false
  policy = "static"
  topology {
    cores  = 8
    spread = "numa"
  }
  static { cpu = "2" }
}
stage "write" "kubelet" {
  directory "a" {
    path = "/etc/a"
    mode = "0600"
  }
  directory "b" { path = "/b" }
  directory "c" { path = "/c" }
}
stage "restart" "kubelet" {
  precondition {
    condition     = true
    error_message = "a"
  }
  precondition {
    condition     = false
    error_message = "b"
  }
}
`

// parseOverride returns the site with the override, which may have notes.
func parseOverride(t *testing.T) *Site {
	t.Helper()
	s, diags := parseText(t, overrideBase+overrideNative)
	if diags.HasErrors() {
		t.Fatalf("got errors, want none:\n%s", show(diags))
	}

	return s
}

func TestOverride(t *testing.T) {
	got := parseOverride(t)
	want := mustParse(t, overrideResult)
	if d := cmp.Diff(summary(want), summary(got)); d != "" {
		t.Errorf("site (-want +got):\n%s", d)
	}
}

func TestOverridesAreRecordedWithBothPlaces(t *testing.T) {
	s := parseOverride(t)
	got := map[string]string{}
	for _, o := range s.Overrides {
		base := "-"
		if o.Base.Filename != "" {
			base = origin.Place(o.Base).String()
		}
		got[o.Address] = base + " " + origin.Place(o.Over).String()
	}
	want := table.YAML[map[string]string](t, `
prelet max_age: '- 50-site.hcl:2:12'
cluster servers: 10-base.hcl:3:3 50-site.hcl:4:5
cluster ca_file: 10-base.hcl:4:3 50-site.hcl:5:5
cluster ca_cert_hashes: '- 50-site.hcl:6:5'
local.b: 10-base.hcl:10:3 50-site.hcl:9:5
local.c: '- 50-site.hcl:10:5'
variable.zone default: 10-base.hcl:13:3 50-site.hcl:13:5
variable.zone validation: '- 50-site.hcl:14:5'
detector.nvidia allow.devices: '- 50-site.hcl:20:13'
detector.nvidia config.firmware: 10-base.hcl:24:5 50-site.hcl:22:7
detector.nvidia config.limits: 10-base.hcl:25:5 50-site.hcl:23:7
stage.reserve.node when: 10-base.hcl:29:3 50-site.hcl:27:5
stage.reserve.node policy: 10-base.hcl:30:3 50-site.hcl:28:5
stage.reserve.node floor: 10-base.hcl:31:3 50-site.hcl:29:5
stage.reserve.node static: '- 50-site.hcl:30:5'
stage.reserve.node topology.cores: 10-base.hcl:33:5 50-site.hcl:31:16
stage.write.kubelet directory.a.path: 10-base.hcl:39:5 50-site.hcl:34:21
stage.write.kubelet directory.c: '- 50-site.hcl:35:5'
stage.restart.kubelet precondition: '- 50-site.hcl:38:5'
`)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("site (-want +got):\n%s", d)
	}
}

func TestOverridesApplyInOrderOfFileAndPosition(t *testing.T) {
	s, diags := parseText(t, `-- a.hcl --
override {
  stage "reserve" "x" { policy = "first" }
}
-- b.hcl --
stage "reserve" "x" { policy = "base" }
override {
  stage "reserve" "x" { policy = "second" }
  stage "reserve" "x" { max_pods = 1 }
}
-- c.hcl --
override {
  stage "reserve" "x" { policy = "third" }
}
override {
  stage "reserve" "x" { max_pods = null }
}
`)
	hidden := `override-ignored b.hcl:3:25 Two overrides of stage.reserve.x policy: The one at a.hcl:2:25 has no effect: `
	if got := show(diags); diags.HasErrors() || len(diags) != 3 || !strings.HasPrefix(got, hidden) {
		t.Errorf("got %s; want three notes, the first one %s", got, hidden)
	}
	if d := cmp.Diff(
		[]string{"stage.reserve.x", "stage.reserve.x policy = `\"third\"`", "stage.reserve.x on_failure fail"},
		summary(s),
	); d != "" {
		t.Errorf("site (-want +got):\n%s", d)
	}
	var order []string
	for _, o := range s.Overrides {
		order = append(order, o.Over.Filename+" "+o.Address)
	}
	if d := cmp.Diff(
		"a.hcl policy, b.hcl policy, b.hcl max_pods, c.hcl policy, c.hcl max_pods",
		strings.ReplaceAll(strings.Join(order, ", "), "stage.reserve.x ", ""),
	); d != "" {
		t.Errorf("site (-want +got):\n%s", d)
	}
}

// TestHiddenOverrides: an earlier override that a later one replaces is noted, also in a block that the earlier one has
// added, and in JSON.
func TestHiddenOverrides(t *testing.T) {
	for name, text := range map[string]string{
		"an argument": `-- a.hcl --
stage "write" "k" {
  kubelet_config { base = "" }
}
-- b.hcl --
override {
  stage "write" "k" {
    kubelet_config { patch = { maxPods = 50 } }
  }
}
-- c.hcl --
override {
  stage "write" "k" {
    kubelet_config { patch = { v = 1 } }
  }
}
`,
		"of an added block": `-- a.hcl --
stage "write" "k" {}
-- b.hcl --
override {
  stage "write" "k" {
    kubelet_config { patch = { maxPods = 50 } }
  }
}
-- c.hcl --
override {
  stage "write" "k" {
    kubelet_config { patch = { v = 1 } }
  }
}
`,
	} {
		_, diags := parseText(t, text)
		want := "Two overrides of stage.write.k kubelet_config.patch: The one at b.hcl"
		if got := show(diags); diags.HasErrors() || len(diags) != 1 || !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want one note with %q", name, got, want)
		}
	}

	if _, diags := parseText(t, `-- a.hcl --
stage "write" "k" {
  kubelet_config { patch = { maxPods = 1 } }
}
override {
  stage "write" "k" {
    kubelet_config { patch = { maxPods = 50 } }
  }
}
`); len(diags) != 0 {
		t.Errorf("one override: got %s, want none", show(diags))
	}
}

func TestLaterVarsFileWins(t *testing.T) {
	s, diags := parseText(
		t,
		"-- a.hcl --\nvariable \"zone\" {}\n-- 10.prelet.vars --\nzone = \"a\"\n-- 20.prelet.vars --\nzone = \"b\"\n",
	)
	want := "layer-replaced 10.prelet.vars:1:1 A value of var.zone is replaced: The one at 20.prelet.vars:1:1 wins"
	if got := show(diags); diags.HasErrors() || len(diags) != 1 || !strings.HasPrefix(got, want) {
		t.Errorf("messages: got %s, want one note %s", got, want)
	}
	if got := written(s.Values["zone"]); got != "`\"b\"`" {
		t.Errorf("zone: got %s, want the last file's value", got)
	}
	if len(s.Overrides) != 1 || s.Overrides[0].Address != "var.zone" ||
		origin.Place(s.Overrides[0].Base).String() != "10.prelet.vars:1:1" ||
		origin.Place(s.Overrides[0].Over).String() != "20.prelet.vars:1:1" {
		t.Errorf("overrides: got %+v, want one of var.zone", s.Overrides)
	}
}

// TestDroppedKeys: an override that replaces a map is noted with the keys that it drops, where both maps are written out.
func TestDroppedKeys(t *testing.T) {
	for _, c := range table.YAML[[]struct{ Base, Over, Want string }](t, `
- {base: '{ a = 1, b = 2 }', over: '{ a = 3 }', want: b}
- {base: 'merge({ a = 1 }, local.x ? { b = 2, "c.d" = 3 } : {})', over: '{ a = 3 }', want: 'b, c.d'}
- {base: '({ a = { x = 1, y = 2 }, b = {} })', over: '{ a = { x = 2 } }', want: 'a.y, b'}
- {base: '{ a = 1, b = 2 }', over: '{}', want: 'a, b'}
- {base: '{ a = 1, b = 2 }', over: '{ a = 3, b = null }'}
- {base: '{ a = { x = 1 } }', over: '{ a = local.x }'}
- {base: '{ a = local.x }', over: '{ a = { x = 1 } }'}
- {base: '{ a = 1 }', over: 'merge(local.x, { b = 2 })'}
- {base: '{ a = 1 }', over: 'null'}
- {base: local.x, over: '{ a = 1 }'}
- {base: '{ for k in local.x : k => 1 }', over: '{ a = 1 }'}
- {base: '{ "${local.x}" = 1, a = 1 }', over: '{ "${local.x}" = 1 }'}
`) {
		_, diags := parseText(t, `-- a.hcl --
locals {
  x = true
  y = `+c.Base+`
}
stage "write" "k" {
  kubelet_config { patch = `+c.Base+` }
}
-- b.hcl --
override {
  locals { y = `+c.Over+` }
  stage "write" "k" {
    kubelet_config { patch = `+c.Over+` }
  }
}
`)
		var got []string
		for _, d := range diags {
			got = append(got, d.Summary)
		}
		want := []string(nil)
		if c.Want != "" {
			want = []string{"This override drops " + c.Want, "This override drops " + c.Want}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s over %s: got %s (-want +got):\n%s", c.Over, c.Base, show(diags), d)
		}
	}
}

// Command tour is `make demo`: prelet's main job from end to end, on any machine, without root and without a cluster.
//
// A small TLS apiserver in this process serves a signed cluster-info and a kubelet ConfigMap, the hardware is a
// recorded machine with eight GPUs, and files go below bin/demo. Each command is run as shown, by the real program,
// and its result is checked; the exit status is 1 if a check fails.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/demo"
	"github.com/prelet/prelet/internal/probe/hardware/hwtree"
)

const dir = "bin/demo"

func main() {
	if err := tour(); err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
}

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous:
    enabled: false
  x509:
    clientCAFile: /etc/kubernetes/pki/ca.crt
cgroupDriver: systemd
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
maxPods: 110
rotateCertificates: true
staticPodPath: /etc/kubernetes/manifests
`

const site = `# The site of the demo: a GPU node of a training cluster.
variable "zone" {
  type = string
  validation {
    condition     = can(regex("^[a-z]{2}[0-9]-r[0-9]{2}$", var.zone))
    error_message = "zone must look like az1-r07."
  }
}

locals {
  hw     = stage.detect-hw.node
  nvidia = where(local.hw.gpus, { vendor = "nvidia" })
}

cluster {
  servers        = ["SERVER"]
  ca_cert_hashes = ["PIN"]
  token          = credential("bootstrap-token")
}

stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "detect-hw" "node" {}

stage "reserve" "node" {
  policy   = "gke"
  max_pods = 64
  topology {
    cores  = 4
    spread = "numa"
  }
}

stage "label" "site" {
  labels = { "topology.kubernetes.io/zone" = var.zone }
}

stage "label" "gpu" {
  when = length(local.nvidia) > 0
  labels = {
    "accelerator"           = "nvidia-${slug(local.nvidia[0].model)}"
    "gpu.example.com/count" = length(local.nvidia)
  }
}

stage "taint" "gpu" {
  when   = length(local.nvidia) > 0
  taints = ["nvidia.com/gpu=true:NoSchedule"]
}

stage "write" "kubelet" {
  kubelet_config {
    patch = {
      cpuManagerPolicy      = "static"
      topologyManagerPolicy = "best-effort"
    }
  }
}

stage "restart" "kubelet" {}
`

func tour() error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	server, err := demo.Start(demo.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	server.SetConfigMap("kube-system", "kubelet-config", map[string]string{"kubelet": kubeletConfig})
	text := strings.NewReplacer("SERVER", server.URL(), "PIN", server.CAHash()).Replace(site)
	for path, content := range map[string]string{
		"site/site.hcl":               text,
		"credentials/bootstrap-token": server.Token(),
		"node/etc/os-release":         "ID=debian\n",
		"node/etc/default/kubelet": "# Kept as it is: prelet touches its own flags only.\n" +
			"KUBELET_EXTRA_ARGS=\"--v=2\"\n",
	} {
		if err := put(path, content); err != nil {
			return err
		}
	}
	if err := hwtree.BuildFile("testdata/hardware/spec/dgx-h100.json", filepath.Join(dir, "machine")); err != nil {
		return err
	}
	t := &guide{server: server}
	where := []string{
		"--config", dir + "/site",
		"--root", dir + "/node",
		"--hardware", dir + "/machine",
		"--var", "zone=az1-r07",
	}
	with := func(args ...string) []string { return append(args, where...) }

	t.say("A site is checked on a laptop: no machine, no network.")
	t.show("validate", dir+"/site")
	t.say("What would change on this node? An apiserver in this process answers, the hardware is a recorded " +
		"machine with\n" +
		"eight H100. Nothing is written.")
	t.show(with("plan")...)
	t.say("Do it.")
	t.show(with("run")...)
	t.say("The files, all or none. The token is in the kubelet's bootstrap file and nowhere else.")
	t.showFiles()
	t.say("And again: there is nothing to do, so nothing is written.")
	before := t.snapshot()
	t.showEnd(with("plan")...)
	t.show(with("run")...)
	if after := t.snapshot(); after != before {
		t.fail("the second run wrote something:\n%s\n%s", before, after)
	}
	t.say("Why has this node this label?")
	t.show(with("explain", "label/accelerator")...)
	t.say("A typing error is found before any machine boots.")
	wrong := strings.Replace(text, "local.nvidia[0].model", "local.nvidia[0].modle", 1)
	if err := put("typo/site.hcl", wrong); err != nil {
		return err
	}
	t.expect(10, "validate", dir+"/typo")
	t.checkSecret()
	if t.err == nil {
		fmt.Printf("\nEverything is below %[1]s. The apiserver has ended, so plan and run would time out.\n"+
			"Try: bin/prelet detect --hardware %[1]s/machine\n"+
			"Then docs/tutorial.md: it plans with --objects, a folder in place of a cluster.\n", dir)
	}
	return t.err
}

func put(path, text string) error {
	p := filepath.Join(dir, path)
	if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if strings.HasPrefix(path, "credentials/") {
		mode = 0o400
	}
	return os.WriteFile(p, []byte(text), mode)
}

// guide shows commands and runs them. The first failure ends the tour.
type guide struct {
	server *demo.Server
	step   int
	output bytes.Buffer // of all commands, to be searched for the token
	err    error
}

func (t *guide) fail(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf(format, args...)
	}
}

func (t *guide) say(text string) {
	if t.err != nil {
		return
	}
	t.step++
	fmt.Printf("\n━━ %d. %s\n", t.step, text)
}

func (t *guide) show(args ...string)    { t.command(0, true, args) }
func (t *guide) showEnd(args ...string) { t.command(0, false, args) }
func (t *guide) expect(code int, args ...string) {
	t.command(code, true, args)
}

// command runs the binary as a user would. Unless isWhole, only the last lines are shown.
func (t *guide) command(want int, isWhole bool, args []string) {
	if t.err != nil {
		return
	}
	fmt.Printf("\n$ prelet %s\n", strings.Join(args, " "))
	c := exec.Command("bin/prelet", args...)
	abs, err := filepath.Abs(dir + "/credentials")
	if err != nil {
		t.fail("%w", err)
		return
	}
	c.Env = append(os.Environ(), "CREDENTIALS_DIRECTORY="+abs)
	out, err := c.CombinedOutput()
	t.output.Write(out)
	code := 0
	var x *exec.ExitError
	switch {
	case errors.As(err, &x):
		code = x.ExitCode()
	case err != nil:
		t.fail("%w (make build makes bin/prelet)", err)
		return
	}
	text := string(out)
	if !isWhole {
		if i := strings.Index(text, "\nFiles\n"); i >= 0 {
			text = "…" + text[i:]
		}
	}
	fmt.Print(text)
	if code != want {
		t.fail("`prelet %s` ended with %d, not %d", args[0], code, want)
	}
}

func (t *guide) showFiles() {
	if t.err != nil {
		return
	}
	for _, p := range []string{
		"etc/kubernetes/pki/ca.crt",
		"etc/kubernetes/bootstrap-kubelet.conf",
		"etc/default/kubelet",
		"var/lib/kubelet/config.yaml",
	} {
		st, err := os.Stat(filepath.Join(dir, "node", p))
		if err != nil {
			t.fail("%w", err)
			return
		}
		fmt.Printf("\n  %s  /%s\n", st.Mode(), p)
		b, err := os.ReadFile(filepath.Join(dir, "node", p))
		if err != nil {
			t.fail("%w", err)
			return
		}
		if strings.HasSuffix(p, "kubelet") || strings.HasSuffix(p, ".yaml") {
			for _, l := range strings.Split(strings.TrimRight(string(b), "\n"), "\n") {
				fmt.Println("      " + l)
			}
		}
	}
}

// snapshot returns the names of the files of the node with their modification times.
func (t *guide) snapshot() string {
	var b strings.Builder
	err := filepath.WalkDir(filepath.Join(dir, "node"), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(p, "/run/") {
			return err
		}
		st, err := d.Info()
		if err == nil {
			fmt.Fprintf(&b, "%s %s\n", st.ModTime().Format(time.RFC3339Nano), p)
		}
		return err
	})
	if err != nil {
		t.fail("%w", err)
	}
	return b.String()
}

// checkSecret searches for the token in all output and in all files except the token file.
func (t *guide) checkSecret() {
	if t.err != nil {
		return
	}
	_, secret, _ := strings.Cut(t.server.Token(), ".")
	if strings.Contains(t.output.String(), secret) {
		t.fail("the token was printed")
	}
	var where []string
	err := filepath.WalkDir(filepath.Join(dir, "node"), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p) //nolint:gosec // the folder belongs to this program
		if bytes.Contains(b, []byte(secret)) {
			where = append(where, p)
		}
		return err
	})
	if err != nil {
		t.fail("%w", err)
	}
	for _, p := range where {
		if !strings.HasSuffix(p, "bootstrap-kubelet.conf") && !strings.Contains(p, "/generations/") {
			t.fail("the token is in %s", p)
		}
	}
}

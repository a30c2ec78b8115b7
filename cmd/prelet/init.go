package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/joined"
	"github.com/prelet/prelet/internal/nodefile"
	"github.com/prelet/prelet/internal/server"
	"github.com/prelet/prelet/internal/site"
	"github.com/prelet/prelet/internal/world"
)

func (a *cli) init() *cobra.Command {
	var servers, hashes []string
	var ca, root string
	var fromNode bool
	c := &cobra.Command{Use: "init [DIR]", GroupID: "site", Args: cobra.MaximumNArgs(1), Short: "Write a first site",
		Long: "Writes DIR/site.hcl (default: ./site): a worker of a kubeadm cluster, ready for `prelet validate`. The cluster's pins\n" +
			"come from --ca-cert-hash, from a CA file (--ca-file), or, with --from-node, from a node that has joined already.",
		Example: "  prelet init --server 10.0.0.11:6443 --ca-file ca.crt\n  prelet init --from-node /etc/prelet",
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "site"
			if len(args) == 1 {
				dir = args[0]
			}
			if fromNode {
				x, err := joined.Node{Root: nodefile.Root(root), Now: time.Now}.Cluster()
				if err != nil {
					return failure(fault.Usage, "--from-node: this node has not joined a cluster: %s", err)
				}
				if len(servers) == 0 {
					servers = []string{x.Server}
				}
				hashes = append(hashes, x.Hashes...)
			}
			if ca != "" {
				b, err := os.ReadFile(ca)
				if err != nil {
					return failure(fault.Usage, "--ca-file %s: %s", ca, err)
				}
				h, err := joined.CAHashes(b)
				if err != nil {
					return failure(fault.Usage, "--ca-file %s: %s", ca, err)
				}
				hashes = append(hashes, h...)
			}
			if len(servers) == 0 || len(hashes) == 0 {
				return failure(fault.Usage, "a first site needs an apiserver (--server) and its pins (--ca-cert-hash or --ca-file).\n"+
					"On a node that has joined, --from-node finds both; on a control plane,\n`kubeadm token create --print-join-command` shows them")
			}
			first := map[string]string{}
			for _, s := range servers {
				address, err := server.Parse(s)
				if err != nil {
					return failure(fault.Usage, "--server: %s", err)
				}
				if f, twice := first[address]; twice {
					return failure(fault.Usage, "--server: %q is there twice, first as %q", s, f)
				}
				first[address] = s
			}
			text := firstSite(servers, hashes)
			parsed, diags := site.Parse([]world.SiteFile{{Name: filepath.Join(dir, "site.hcl"), Text: text}}, app.SiteOptions(version))
			if !diags.HasErrors() {
				diags = boot.Check(parsed, boot.Witnesses()[:1])
			}
			if diags.HasErrors() {
				a.say(&site.Site{Sources: map[string][]byte{filepath.Join(dir, "site.hcl"): []byte(text)}}, diags)
				return quit(fault.Usage)
			}
			if err := newFile(filepath.Join(dir, "site.hcl"), text); err != nil {
				return failure(fault.CannotWrite, "%s", err)
			}
			fmt.Fprintf(a.stdout, "Wrote %s. Next:\n  prelet validate %s\n  prelet plan --config %s\nThe second one on a node, or with --hardware and --objects for one.\n", filepath.Join(dir, "site.hcl"), dir, dir)
			return nil
		}}
	f := c.Flags()
	f.StringArrayVar(&servers, "server", nil, "apiserver, `HOST:PORT` (repeatable)")
	f.StringArrayVar(&hashes, "ca-cert-hash", nil, "`HASH` of the cluster's CA, sha256:… (repeatable)")
	f.StringVar(&ca, "ca-file", "", "the cluster's CA as PEM `FILE`; its pins are written, not its name")
	f.BoolVar(&fromNode, "from-node", false, "take server and pins from this node's kubelet.conf")
	f.StringVar(&root, "root", "", "with --from-node: a node's files below `DIR`")
	return c
}

func firstSite(servers, hashes []string) string {
	var b strings.Builder
	b.WriteString("# A worker of a kubeadm cluster. Everything that is not written is a default: `prelet plan` shows it.\ncluster {\n")
	fmt.Fprintf(&b, "servers = [%s]\n", quoted(servers))
	fmt.Fprintf(&b, "ca_cert_hashes = [%s]\n", quoted(hashes))
	b.WriteString("token = credential(\"bootstrap-token\") # read only while the node has not joined\n}\n\n" +
		"stage \"fetch-ca\" \"cluster\" {}\n" +
		"stage \"fetch-config\" \"kubelet\" { config_map = \"kube-system/kubelet-config\" }\n" +
		"stage \"detect-hw\" \"node\" {}\n\n" +
		"stage \"reserve\" \"node\" {\npolicy = \"gke\"\n}\n\n" +
		"# stage \"label\" \"site\" {\n#   labels = { \"topology.kubernetes.io/zone\" = \"az1\" }\n# }\n\n" +
		"stage \"write\" \"kubelet\" {}\nstage \"restart\" \"kubelet\" {}\n")
	return string(site.Format([]byte(b.String())))
}

func quoted(l []string) string {
	var out []string
	for _, s := range l {
		out = append(out, fmt.Sprintf("%q", s))
	}
	return strings.Join(out, ", ")
}

// newFile writes a file that must not be there yet: a site is somebody's work.
func newFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		if os.IsExist(err) {
			return fmt.Errorf("%s is there already; name another folder, or remove it", path)
		}
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(path) // what is half written would stand in the way of the next try; the first error counts
	}
	return err
}

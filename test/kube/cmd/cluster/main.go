// Command cluster starts a real control plane and a node for prelet and a kubelet, for people who want to look.
//
//	go run ./cmd/cluster -cache DIR                   until Ctrl-C; prints how to enter the node, and how to ask the cluster
//	go run ./cmd/cluster -cache DIR -- bash           a shell in the node, with prelet, the kubelet and a site
//	go run ./cmd/cluster -cache DIR -nodes 0          the control plane alone
//	go run ./cmd/cluster -cache DIR -json             the same for a script: a line of JSON describes it, and it ends
//	                                                  with standard input
//
// The node has a site in /etc/prelet that joins this cluster, the token as a credential, and a kubelet that waits for
// prelet's gate, so `prelet run --config /etc/prelet` joins. It needs root on Linux, and the programs that build.sh
// makes in DIR. It removes everything when it ends.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prelet/prelet/test/kube"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	cache := flag.String("cache", os.Getenv("PRELET_KUBE_CACHE"), "`DIR` that build.sh has filled")
	gomod := flag.String("mod", "go.mod", "the go.mod that names the version of Kubernetes")
	prelet := flag.String("prelet", "../../bin/prelet", "the program under test")
	nodes := flag.Int("nodes", 1, "how many nodes")
	hardware := flag.String(
		"hardware",
		"",
		"tree of a recorded machine (make machines) that the nodes are",
	)
	kubelet := flag.String("kubelet-config", "", "`FILE` with the fields of the cluster's KubeletConfiguration")
	asJSON := flag.Bool("json", false, "print one line of JSON, and end with standard input")
	bind := flag.String(
		"bind",
		"127.0.0.1",
		"`ADDRESS` that the API server listens on; its certificate knows 198.51.100.1 besides",
	)
	driver := flag.String(
		"driver",
		"cgroupfs",
		"cgroup driver that the fake runtime reports: cgroupfs, systemd, none",
	)
	flag.Parse()
	if *cache == "" {
		return errors.New("-cache or PRELET_KUBE_CACHE names the folder that build.sh has filled")
	}
	version, err := kube.Version(*gomod)
	if err != nil {
		return err
	}
	binary, err := filepath.Abs(*prelet)
	if err != nil {
		return err
	}
	folder, err := filepath.Abs(*cache) // kubeadm takes no other
	if err != nil {
		return err
	}
	p, err := kube.Find(folder, version, binary)
	if err != nil {
		return err
	}
	if err := p.Sweep(); err != nil {
		return err
	}
	options := kube.ClusterOptions{
		APIServer: []string{"--bind-address", *bind},
		Token:     "prelet.0123456789abcdef", // the one of kubeadm's documentation is in the program, too
	}
	if *kubelet != "" {
		fields, err := os.ReadFile(*kubelet)
		if err != nil {
			return err
		}
		options.KubeletConfig = string(fields)
	}
	began := time.Now()
	c, err := p.Start(ctx, options)
	if err != nil {
		return err
	}
	defer c.Stop()
	if *asJSON {
		return serve(c, version)
	}
	fmt.Printf(
		"Kubernetes %s at https://127.0.0.1:%d after %.1f s, token %s\n",
		version,
		c.Port,
		time.Since(began).Seconds(),
		c.Token,
	)
	fmt.Printf(
		"  kubectl:  %s --kubeconfig %s get nodes\n",
		filepath.Join(p.Kubernetes, "kubectl"),
		c.Path("super-admin.conf"),
	)
	site, err := site(c)
	if err != nil {
		return err
	}
	var first *kube.Node
	for i := range *nodes {
		n, err := c.NewNode(
			ctx,
			kube.NodeOptions{
				Name:     fmt.Sprintf("n%d", i+1),
				Hardware: *hardware,
				Loopback: []string{"10.0.0.11"},
			},
		)
		if err != nil {
			return err
		}
		defer n.Stop()
		if first == nil {
			first = n
		}
		err = errors.Join(
			n.Reach(c, "10.0.0.11:6443"),
			n.Credential("bootstrap-token", c.Token),
			n.Site(map[string]string{"site.hcl": site}),
			n.StartFakeRuntime(ctx, *driver),
			n.WantKubelet(ctx),
		)
		if err != nil {
			return err
		}
		fmt.Printf("  %s:       %s\n", n.Name, strings.Join(n.Enter("bash"), " "))
	}
	if first == nil || flag.NArg() == 0 {
		fmt.Println("Ctrl-C ends it.")
		<-ctx.Done()
		return nil
	}
	fmt.Println(
		"In the node: prelet run --config /etc/prelet; /var/log/kubelet.log is the kubelet's output.",
	)
	words := first.Enter(flag.Args()...)
	cmd := exec.Command(words[0], words[1:]...) // not ended by Ctrl-C, which is the shell's
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdin, os.Stdout, os.Stderr, append(
		first.Environment(),
		"TERM="+os.Getenv("TERM"),
	)
	return cmd.Run()
}

// serve prints where the cluster is, and returns when standard input has ended.
func serve(c *kube.Cluster, version string) error {
	pin, err := c.Pin()
	if err != nil {
		return err
	}
	err = json.NewEncoder(os.Stdout).Encode(map[string]string{
		"url":     fmt.Sprintf("https://127.0.0.1:%d", c.Port),
		"ca_hash": pin,
		"token":   c.Token,
		"folder":  c.Dir,
		"version": version,
	})
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)

	return err
}

func site(c *kube.Cluster) (string, error) {
	pin, err := c.Pin()
	return `cluster {
  servers        = ["https://10.0.0.11:6443"]
  ca_cert_hashes = ["` + pin + `"]
  token          = credential("bootstrap-token")
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "detect-hw" "node" {}
stage "reserve" "node" { policy = "gke" }
stage "label" "node" { labels = { "example.com/pool" = "a" } }
stage "write" "kubelet" {}
stage "restart" "kubelet" {}
`, err
}

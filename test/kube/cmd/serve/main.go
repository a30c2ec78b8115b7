// Command serve is a real control plane for a benchmark, with the protocol of bench/serve: it prints one line of JSON
// with what a client needs, and answers each line on stdin with the number of requests of nodes since the previous
// line, from the API server's audit log. It ends when stdin is closed, and removes the cluster.
//
//	go run ./cmd/serve -cache DIR -kubelet-config FILE
//
// It needs root on Linux, and what build.sh makes in DIR.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/test/kube"
)

// address is the first line that serve prints.
type address struct {
	URL        string `json:"url"`
	CA         string `json:"ca"` // PEM
	CAHash     string `json:"ca_hash"`
	Token      string `json:"token"`
	Kubeconfig string `json:"kubeconfig"` // of a node that has joined
	Version    string `json:"version"`
}

// asked is every further line.
type asked struct {
	Requests int `json:"requests"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	cache := flag.String("cache", os.Getenv("PRELET_KUBE_CACHE"), "`DIR` that build.sh has filled")
	gomod := flag.String("mod", "go.mod", "the go.mod that names the version of Kubernetes")
	prelet := flag.String("prelet", "../../bin/prelet", "the program under test")
	kubelet := flag.String("kubelet-config", "", "`FILE` with the cluster's KubeletConfiguration")
	object := flag.String("object", "", "`FILE` with a further ConfigMap")
	flag.Parse()

	version, err := kube.Version(*gomod)
	if err != nil {
		return err
	}
	folder, err := filepath.Abs(*cache) // kubeadm takes no other
	if err != nil {
		return err
	}
	p, err := kube.Find(folder, version, *prelet)
	if err != nil {
		return err
	}
	if err := p.Sweep(); err != nil {
		return err
	}
	config, err := readKubeletConfig(*kubelet)
	if err != nil {
		return err
	}

	c, err := p.Start(ctx, kube.Options{Audit: true, KubeletConfig: config})
	if err != nil {
		return err
	}
	defer c.Stop()

	a, err := describe(ctx, c, version)
	if err != nil {
		return err
	}
	if err := addObject(ctx, c, *object); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(a); err != nil {
		return err
	}

	return answer(c, os.Stdin, os.Stdout)
}

// readKubeletConfig returns the fields of a KubeletConfiguration without its kind, as kube.Options takes them.
func readKubeletConfig(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var fields map[string]any
	if err := yaml.Unmarshal(text, &fields); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	delete(fields, "kind")
	delete(fields, "apiVersion")
	out, err := yaml.Marshal(fields)

	return string(out), err
}

func describe(ctx context.Context, c *kube.Cluster, version string) (address, error) {
	ca, err := c.CA()
	if err != nil {
		return address{}, err
	}
	pin, err := c.Pin()
	if err != nil {
		return address{}, err
	}
	_, err = c.Kubeadm(ctx, "init", "phase", "kubeconfig", "kubelet",
		"--config", c.Path("kubeadm.yaml"), "--kubeconfig-dir", c.Path("joined"))
	if err != nil {
		return address{}, err
	}
	joined, err := os.ReadFile(filepath.Join(c.Path("joined"), "kubelet.conf"))
	if err != nil {
		return address{}, err
	}

	return address{
		URL: fmt.Sprintf("https://127.0.0.1:%d", c.Port), CA: ca, CAHash: pin, Token: c.Token, Version: version,
		// kubeadm writes the advertised address, which nothing listens on.
		Kubeconfig: strings.ReplaceAll(string(joined), "https://198.51.100.1:", "https://127.0.0.1:"),
	}, nil
}

// addObject stores the ConfigMap of a file, and lets bootstrap tokens read it.
func addObject(ctx context.Context, c *kube.Cluster, file string) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var m struct {
		Metadata struct{ Namespace, Name string }
		Data     map[string]string
	}
	if err := yaml.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	namespace, name := m.Metadata.Namespace, m.Metadata.Name
	if err := c.SetConfigMap(ctx, namespace, name, m.Data); err != nil {
		return err
	}

	// As kubeadm does it for its own ConfigMap.
	meta := metav1.ObjectMeta{Name: "bench-config", Namespace: namespace}
	_, err = c.Client.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{name}, Verbs: []string{"get"},
	}}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = c.Client.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:bootstrappers"}},
	}, metav1.CreateOptions{})

	return err
}

// answer counts the requests of nodes, before and after they have joined: not those of the controllers and of kubeadm.
func answer(c *kube.Cluster, in io.Reader, out io.Writer) error {
	before := 0
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		all, err := c.Received("")
		if err != nil {
			return err
		}
		now := 0
		for _, r := range all {
			user := r.User.Username
			if r.URI != "/readyz" &&
				(user == "system:anonymous" || strings.HasPrefix(user, "system:bootstrap:") ||
					strings.HasPrefix(user, "system:node:")) {
				now++
			}
		}
		if err := json.NewEncoder(out).Encode(asked{Requests: now - before}); err != nil {
			return err
		}
		before = now
	}

	return lines.Err()
}

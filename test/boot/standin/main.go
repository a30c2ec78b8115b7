// Command standin replaces the kubelet in a booted image. It behaves like a kubelet towards prelet, systemd and the
// API server.
//
// It is used like the real one: the same flags, health port, bootstrap and Node; crashLabel and the files below make it
// fail. It must not run pods. Each start is one line of /var/log/standin/starts, which survives a power cut.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

const (
	starts   = "/var/log/standin/starts"
	exitFile = "/run/standin/exit"
	signed   = "/etc/standin/kubelet.conf"
	// alwaysFile makes the kubelet exit at each start, with the status in the file, like a broken machine.
	alwaysFile = "/etc/standin/always"
	fixedFile  = "/etc/standin/fixed"

	// crashLabel makes the kubelet unhealthy, so that failures belong to a generation: "early" exits before it is
	// ready, "hang" hangs there, "yes" and "swap" exit a moment later, "unless-fixed" as well while fixedFile is
	// missing, "later" exits after 3 s, and "unjoined" is healthy and never joins.
	crashLabel = "e2e.prelet.dev/crash"
	stateFile  = "/var/lib/kubelet/cpu_manager_state"
	healthz    = "127.0.0.1:10248"
)

// Start is one line of the starts file.
type start struct {
	PID        int               `json:"pid"`
	Unix       int64             `json:"unix_ms"`
	Generation string            `json:"generation"` // PRELET_GENERATION, from the gate
	Labels     map[string]string `json:"labels"`
	Taints     any               `json:"taints"`
	Domain     any               `json:"domain"` // clusterDomain of its configuration
	Joined     bool              `json:"joined"`
	Err        string            `json:"error,omitempty"`
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("Kubernetes v1.36.3")
		return
	}
	if slices.Contains(os.Args, "--exit-on-lock-contention") {
		os.Exit(dryRun(os.Args[1:]))
	}
	s := start{
		PID:        os.Getpid(),
		Unix:       time.Now().UnixMilli(),
		Generation: os.Getenv("PRELET_GENERATION"),
	}
	flags, err := parse(os.Args[1:])
	if err == nil {
		s.Labels = labels(flags["node-labels"])
		_, missing := os.Stat(flags["kubeconfig"])
		s.Joined = missing == nil
		var config map[string]any
		if config, err = configuration(flags["config"]); err == nil {
			s.Taints, s.Domain = config["registerWithTaints"], config["clusterDomain"]
			err = managers(config)
		}
	}
	if err != nil {
		s.Err = err.Error()
	}
	if noted := note(s); noted != nil {
		fmt.Fprintln(os.Stderr, "standin:", noted)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "standin:", err)
		os.Exit(1)
	}
	os.Exit(run(flags, s.Labels))
}

// dryRun ends as a kubelet does that has no lock file: after its command line and its configuration are parsed.
func dryRun(args []string) int {
	args = slices.DeleteFunc(args, func(word string) bool {
		name, _, _ := strings.Cut(word, "=")

		return slices.Contains([]string{
			"--exit-on-lock-contention", "--root-dir", "--cert-dir", "--client-ca-file", "--tls-cert-file",
			"--tls-private-key-file",
		}, name)
	})
	flags, err := parse(args)
	if err == nil {
		_, err = configuration(flags["config"])
	}
	if err == nil {
		err = errors.New("cannot exit on lock file contention: no lock file specified")
	}
	fmt.Fprintf(os.Stderr, "E0101 00:00:00.000000 1 main.go:1] \"command failed\" err=%q\n", err)

	return 1
}

// known are the flags that kubeadm's unit and prelet use; a kubelet ends on any other.
var known = map[string]bool{
	"bootstrap-kubeconfig": true,
	"kubeconfig":           true,
	"config":               true,
	"config-dir":           true,
	"node-labels":          true,
	"hostname-override":    true,
	"node-ip":              true,
	"v":                    true,
}

func parse(args []string) (map[string]string, error) {
	out := map[string]string{}
	for _, a := range args {
		name, value, ok := strings.Cut(strings.TrimPrefix(a, "--"), "=")
		if !strings.HasPrefix(a, "--") || !ok || !known[name] {
			return nil, fmt.Errorf("unknown flag: %s", a)
		}
		out[name] = value
	}
	for _, name := range []string{"kubeconfig", "bootstrap-kubeconfig", "config"} {
		if out[name] == "" {
			return nil, fmt.Errorf("--%s is missing", name)
		}
	}
	return out, nil
}

func labels(text string) map[string]string {
	out := map[string]string{}
	for _, l := range strings.Split(text, ",") {
		if k, v, ok := strings.Cut(l, "="); ok {
			out[k] = v
		}
	}
	return out
}

func configuration(name string) (map[string]any, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("failed to load kubelet config file: %w", err)
	}
	var c map[string]any
	if err := yaml.UnmarshalStrict(b, &c); err != nil {
		return nil, fmt.Errorf("failed to load kubelet config file %s: %w", name, err)
	}
	if c["kind"] != "KubeletConfiguration" || c["apiVersion"] != "kubelet.config.k8s.io/v1beta1" {
		return nil, fmt.Errorf("%s is not a KubeletConfiguration", name)
	}
	return c, nil
}

// managers refuses, as the CPU manager does, the state that another policy left, and makes one where there is none.
func managers(config map[string]any) error {
	policy, _ := config["cpuManagerPolicy"].(string)
	if policy == "" {
		policy = "none"
	}
	text, err := os.ReadFile(stateFile)
	if errors.Is(err, os.ErrNotExist) {
		return os.WriteFile(stateFile, []byte(`{"policyName":"`+policy+`"}`), 0o600)
	}
	var state struct {
		PolicyName string `json:"policyName"`
	}
	if err := errors.Join(err, json.Unmarshal(text, &state)); err != nil {
		return err
	}
	if state.PolicyName != policy {
		return fmt.Errorf(
			"start cpu manager error: could not restore state from checkpoint: configured policy %q differs "+
				"from state checkpoint policy %q, please drain this node and delete the CPU manager checkpoint "+
				"file %q before restarting Kubelet",
			policy,
			state.PolicyName,
			stateFile,
		)
	}
	return nil
}

func note(s start) error {
	if err := os.MkdirAll(filepath.Dir(starts), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(starts, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	b, err := json.Marshal(s)
	if err == nil {
		_, err = f.Write(append(b, '\n')) // one write: a kill leaves a whole line or none
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// notify sends a state to systemd, with Type=notify.
func notify(state string) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err == nil {
		_, err = c.Write([]byte(state))
		err = errors.Join(err, c.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "standin:", err)
	}
}

func run(flags, labels map[string]string) int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	switch labels[crashLabel] {
	case "early":
		fmt.Fprintln(os.Stderr, "standin: crash on demand, before it is ready")
		return 3
	case "hang":
		notify("STATUS=hangs on demand")
		<-stop
		return 0
	}
	l, err := net.Listen("tcp", healthz)
	if err != nil {
		fmt.Fprintln(os.Stderr, "standin:", err)
		return 1
	}
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/healthz" {
				http.NotFound(w, r)
				return
			}
			fmt.Fprint(w, "ok")
		}))
	}()
	if b, err := os.ReadFile(alwaysFile); err == nil {
		code, _ := strconv.Atoi(strings.TrimSpace(string(b)))
		fmt.Fprintln(os.Stderr, "standin: unhealthy on demand")
		return code
	}
	notify("READY=1\nSTATUS=answers on " + healthz)
	var crash <-chan time.Time
	switch labels[crashLabel] {
	case "unless-fixed":
		if _, err := os.Stat(fixedFile); err == nil {
			break
		}
		fallthrough
	case "yes", "swap":
		crash = time.After(200 * time.Millisecond)
	case "later":
		crash = time.After(3 * time.Second)
	}
	if labels[crashLabel] != "unjoined" {
		go join(flags, labels)
	}
	look := time.NewTicker(50 * time.Millisecond)
	for {
		select {
		case <-stop:
			return 0
		case <-crash:
			if labels[crashLabel] == "swap" { // in the words of the real one
				fmt.Fprintln(
					os.Stderr,
					`E0101 00:00:00.000000       1 run.go:72] "command failed" err="failed to run Kubelet: running with swap on is not supported, please disable swap or set --fail-swap-on flag to false"`,
				)
			}
			fmt.Fprintln(os.Stderr, "standin: crash on demand")
			return 3
		case <-look.C:
			b, err := os.ReadFile(exitFile)
			if err != nil {
				continue
			}
			_ = os.Remove(exitFile)
			code, _ := strconv.Atoi(strings.TrimSpace(string(b)))
			return code
		}
	}
}

// join makes kubelet.conf of the bootstrap kubeconfig, and registers the Node.
func join(flags, labels map[string]string) {
	for told := ""; ; time.Sleep(500 * time.Millisecond) {
		err := bootstrap(flags)
		if err == nil {
			err = register(flags, labels)
		}
		if err == nil {
			return
		}
		if err.Error() != told {
			told = err.Error()
			fmt.Fprintln(os.Stderr, "standin:", told)
		}
	}
}

func bootstrap(flags map[string]string) error {
	if _, err := os.Stat(flags["kubeconfig"]); err == nil {
		return nil
	}
	// The response is not needed: a server that accepts the token would sign the certificate.
	err := request(
		flags["bootstrap-kubeconfig"],
		http.MethodGet,
		"/api/v1/namespaces/kube-system/configmaps/kubelet-config",
		nil,
		http.StatusOK,
	)
	if err != nil {
		return err
	}
	conf, err := os.ReadFile(signed)
	if err != nil {
		return err
	}
	tmp := flags["kubeconfig"] + ".standin"
	if err := os.WriteFile(tmp, conf, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, flags["kubeconfig"])
}

func register(flags, labels map[string]string) error {
	name := flags["hostname-override"]
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return err
		}
		name = strings.ToLower(host)
	}
	err := request(
		flags["kubeconfig"],
		http.MethodGet,
		"/api/v1/nodes/"+name,
		nil,
		http.StatusOK,
	)
	if err == nil {
		return nil
	}
	body, err := json.Marshal(
		map[string]any{
			"kind":       "Node",
			"apiVersion": "v1",
			"metadata":   map[string]any{"name": name, "labels": labels},
		},
	)
	if err != nil {
		return err
	}
	err = request(
		flags["kubeconfig"],
		http.MethodPost,
		"/api/v1/nodes",
		body,
		http.StatusCreated,
	)
	return err
}

func request(kubeconfig, method, path string, body []byte, want int) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.Timeout = 5 * time.Second
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequest(
		method,
		strings.TrimSuffix(config.Host, "/")+path,
		bytes.NewReader(body),
	)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != want {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	return err
}

package kube

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetConfigMap makes or replaces one.
func (c *Cluster) SetConfigMap(
	ctx context.Context,
	namespace, name string,
	data map[string]string,
) error {
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       data,
	}
	_, err := c.Client.CoreV1().ConfigMaps(namespace).Update(ctx, m, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = c.Client.CoreV1().ConfigMaps(namespace).Create(ctx, m, metav1.CreateOptions{})
	}
	return err
}

// Node is a Node object.
func (c *Cluster) Node(ctx context.Context, name string) (*corev1.Node, error) {
	return c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
}

// Ready waits until the Node is there and ready.
func (c *Cluster) Ready(ctx context.Context, name string) (node *corev1.Node, err error) {
	err = waitFor(ctx, time.Minute, "node "+name+" is ready", func() string {
		if node, err = c.Node(ctx, name); err != nil {
			return err.Error()
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				if condition.Status == corev1.ConditionTrue {
					return ""
				}
				return condition.Message
			}
		}
		return "no condition yet"
	})
	return node, err
}

// Configz returns the kubelet's /configz, requested with the API server's certificate, because a node may not. It
// waits for a kubelet that was just started.
func (c *Cluster) Configz(ctx context.Context, n *Node) (map[string]any, error) {
	text, err := c.AskKubelet(ctx, n, "/configz")
	for late := time.Now().Add(time.Minute); errors.Is(err, syscall.ECONNREFUSED) && time.Now().Before(late); time.Sleep(100 * time.Millisecond) {
		text, err = c.AskKubelet(ctx, n, "/configz")
	}
	if err != nil {
		return nil, err
	}
	var out struct {
		KubeletConfig map[string]any `json:"kubeletconfig"`
	}
	return out.KubeletConfig, json.Unmarshal(text, &out)
}

// AskKubelet asks a kubelet on its port 10250 with the API server's client certificate.
func (c *Cluster) AskKubelet(ctx context.Context, n *Node, path string) ([]byte, error) {
	pair, err := tls.LoadX509KeyPair(
		c.Path("pki/apiserver-kubelet-client.crt"),
		c.Path("pki/apiserver-kubelet-client.key"),
	)
	if err != nil {
		return nil, err
	}
	// The kubelet's serving certificate is self-signed; like the API server by default, the test does not verify it.
	client := &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			DialContext:       n.Dial,
			DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{
				Certificates:       []tls.Certificate{pair},
				InsecureSkipVerify: true,
			},
		},
	}
	req, err := http.NewRequestWithContext(
		ctx,
		http.MethodGet,
		"https://"+net.JoinHostPort(n.IP, "10250")+path,
		nil,
	)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(path + " answered " + resp.Status + ": " + strings.TrimSpace(string(text)))
	}
	return text, err
}

// Requests are those whose User-Agent begins so, since the API server was started with Options.Audit, in the order of
// their answers. The server writes its log as it answers, so nothing that was answered is missing.
func (c *Cluster) Requests(userAgent string) ([]Request, error) {
	_, answered, err := c.audited(userAgent)
	return answered, err
}

// Received are those, too, that were never answered, in the order in which they came.
func (c *Cluster) Received(userAgent string) ([]Request, error) {
	received, _, err := c.audited(userAgent)
	return received, err
}

func (c *Cluster) audited(userAgent string) (received, answered []Request, err error) {
	f, err := os.Open(c.Path("audit.log"))
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	at := map[string]int{} // in received
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r Request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, nil, err
		}
		if !strings.HasPrefix(r.UserAgent, userAgent) {
			continue
		}
		i, known := at[r.ID]
		if !known {
			i = len(received)
			at[r.ID], received = i, append(received, r)
		}
		// A watch is answered, and completes much later.
		if r.Response.Code != 0 && (!known || received[i].Response.Code == 0) {
			received[i], answered = r, append(answered, r)
		}
	}
	return received, answered, lines.Err()
}

// PauseControllers stops the controller-manager in its tracks, so that nothing is signed or approved; the returned
// function lets it go on.
func (c *Cluster) PauseControllers() (resume func()) {
	_ = syscall.Kill(c.manager.pid, syscall.SIGSTOP)
	return func() { _ = syscall.Kill(c.manager.pid, syscall.SIGCONT) }
}

// Kubectl runs kubectl as cluster-admin and returns its output.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.run(
		ctx,
		append([]string{c.of("kubectl"), "--kubeconfig", c.Path("super-admin.conf")}, args...)...)
}

// NewToken makes a bootstrap token that lives for ttl ("8s", "1h"), as an operator would.
func (c *Cluster) NewToken(
	ctx context.Context,
	ttl string,
	flags ...string,
) (string, error) {
	out, err := c.Kubeadm(
		ctx,
		append(
			[]string{"token", "create", "--ttl", ttl, "--kubeconfig", c.Path("super-admin.conf")},
			flags...)...)
	return strings.TrimSpace(out), err
}

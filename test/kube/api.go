package kube

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Version is that of Kubernetes in a go.mod of this folder: "v1.37.1".
func Version(gomod string) (string, error) {
	text, err := os.ReadFile(gomod)
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(`(?m)^\s*(?:require )?k8s\.io/kubernetes (v\S+)`).FindSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("%s does not name k8s.io/kubernetes", gomod)
	}
	return string(m[1]), nil
}

// ConfigMap is the data of one.
func (c *Cluster) ConfigMap(
	ctx context.Context,
	namespace, name string,
) (map[string]string, error) {
	m, err := c.Client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return m.Data, nil
}

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
	for late := time.Now().Add(30 * time.Second); errors.Is(err, syscall.ECONNREFUSED) && time.Now().Before(late); time.Sleep(100 * time.Millisecond) {
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

package kube

import (
	"context"
	"fmt"
	"os"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Version returns the version of Kubernetes in a go.mod of this folder: "v1.37.1".
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

// ConfigMap returns the data of a ConfigMap, or the API server's error.
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

package evaluate

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/growth"
)

// TestLargeSites plans sites that are as large as the limits on text allow: none may take the time of its square.
func TestLargeSites(t *testing.T) {
	const write = "stage \"write\" \"kubelet\" {\n  bootstrap_kubeconfig { when = false }\n" +
		"  ca_certificate { when = false }\n  kubelet_config {\n" +
		"    base = \"apiVersion: kubelet.config.k8s.io/v1beta1\\nkind: KubeletConfiguration\\n\"\n"
	for name, c := range map[string]struct {
		size                int // a quarter of the largest
		before, each, after string
	}{
		"labels": {600, "stage \"label\" \"a\" {\n  labels = {\n", "    \"example.com/l%d\" = \"x\"\n", "  }\n}\n"},
		"stages": {200, "", "stage \"label\" \"s%[1]d\" {\n  labels = { \"example.com/s%[1]d\" = \"x\" }\n}\n", ""},
		"patch":  {600, write + "    patch = {\n", "      f%[1]d = %[1]d\n", "    }\n  }\n}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			growth.Check(t, c.size, func(size int) func() {
				s := mustParse(t, c.before+numbered(size, c.each)+c.after)
				return func() { Run(context.Background(), s, RunInput{Source: usualSource()}) }
			})
		})
	}
}

// numbered returns a text with each number below a count in it.
func numbered(count int, each string) string {
	var b strings.Builder
	for n := range count {
		fmt.Fprintf(&b, each, n)
	}

	return b.String()
}

package kubelet

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Configz is how a kubelet is asked for the configuration that it runs with, and what it should say.
type Configz struct {
	URL        string         `json:"url"`
	Credential string         `json:"credential"`          // by name: a client certificate and its key, PEM
	Served     []string       `json:"served_by,omitempty"` // files, one of which holds the kubelet's own certificate
	Planned    map[string]any `json:"planned,omitempty"`   // KubeletConfiguration
}

// ConfigDifferences compares a planned KubeletConfiguration with the one that a kubelet runs with, as /configz tells it: each
// planned field must be there with the same meaning. What is planned as nothing (0s, 0, "", []: kubeadm's ConfigMap is full of it)
// is the kubelet's to fill in, and so is what is not planned, and a few fields that it settles with others: the cgroup driver is the runtime's where that tells one, and reservedSystemCPUs replace the cpu of what is
// reserved (k8s.io/kubernetes cmd/kubelet/app/server.go).
func ConfigDifferences(planned, running map[string]any) []string {
	d := differ{}
	d.object("", planned, running)
	return d.out
}

type differ struct{ out []string }

func (d *differ) object(at string, planned, running map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(planned)) {
		field := strings.TrimPrefix(at+"."+key, ".")
		switch field {
		case "apiVersion", "kind", "cgroupDriver":
			continue
		case "kubeReserved.cpu", "systemReserved.cpu":
			if running[key] == nil {
				continue
			}
		}
		p, r := planned[key], running[key]
		if inner, ok := p.(map[string]any); ok {
			other, _ := r.(map[string]any)
			d.object(field, inner, other)
			continue
		}
		if !sameValue(p, r) {
			d.out = append(d.out, fmt.Sprintf("%s is %s and not %s", field, told(r), told(p)))
		}
	}
}

func told(v any) string {
	if v == nil {
		return "not set"
	}
	s := fmt.Sprint(v)
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return strings.ToValidUTF8(s, "")
}

// sameValue compares meanings: 10s and 10s, 1000m and 1, 64 and 64.0; what is not set is the same as nothing.
func sameValue(p, r any) bool {
	if _, yesOrNo := p.(bool); isZero(p) && (!yesOrNo || isZero(r)) {
		return true
	}
	if a, ok := p.([]any); ok {
		b, _ := r.([]any)
		return slices.EqualFunc(a, b, sameValue)
	}
	if a, ok := p.(map[string]any); ok { // in a list
		b, _ := r.(map[string]any)
		for key := range b {
			if _, planned := a[key]; !planned && !isZero(b[key]) {
				return false
			}
		}
		for key := range a {
			if !sameValue(a[key], b[key]) {
				return false
			}
		}
		return true
	}
	a, b := fmt.Sprint(p), fmt.Sprint(r)
	if a == b {
		return true
	}
	if x, err := strconv.ParseFloat(a, 64); err == nil {
		if y, err := strconv.ParseFloat(b, 64); err == nil {
			return x == y
		}
	}
	if x, err := time.ParseDuration(a); err == nil {
		if y, err := time.ParseDuration(b); err == nil {
			return x == y
		}
	}
	x, err1 := resource.ParseQuantity(a)
	y, err2 := resource.ParseQuantity(b)
	return err1 == nil && err2 == nil && x.Cmp(y) == 0
}

func isZero(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		d, err := time.ParseDuration(v)
		return v == "" || err == nil && d == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	f, err := strconv.ParseFloat(fmt.Sprint(v), 64)
	return err == nil && f == 0
}

package detector

import (
	"errors"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/plugins/contract"
)

// TestKeysAreNormal: a key that would change on its way into a site is refused, and one that would not is kept.
func TestKeysAreNormal(t *testing.T) {
	number := contract.Type{Kind: contract.Number}
	counts := contract.Type{Kind: contract.Map, Element: &number}
	d := contract.Description{Facts: []contract.Attribute{
		{Name: "models", Type: contract.Type{Kind: contract.List, Element: &counts}},
	}}
	for key, isNormal := range map[string]bool{
		"Radeon\u2122 PRO": true, "Gr\u00f6\u00dfe": true, "Gro\u0308\u00dfe": false, "\u212b": false, "\u1112\u1161": false,
	} {
		a := contract.Answer{Facts: []contract.Fact{{Name: "models", Value: []any{map[string]any{key: 1.0}}}}}
		_, err := checkAnswer(d, &a, tape.DetectorReq{})
		if (err == nil) != isNormal || err != nil && !strings.Contains(err.Error(), `fact "models": its key`) {
			t.Errorf("key %+q: got error %v; want it accepted: %t", key, err, isNormal)
		}
	}
}

// TestContractLabels: a kubelet accepts each label that the contract accepts, so that nothing else checks labels.
func TestContractLabels(t *testing.T) {
	part := strings.Repeat("a", 63)
	domains := []string{
		"example.com", "x.example.com", "kubernetes.io", "node-restriction.kubernetes.io", "k8s.io", "Example.com",
		"localhost",
		strings.Repeat(part+".", 3) + "a" + strings.Repeat("b", 48) + ".example.com", // 253 bytes
		strings.Repeat(part+".", 4) + "example.com",
	}
	names := []string{"a", "A_b.c-d", part, part + "a", "-a", "a-", "", "a/b", "\u00e4"}
	accepted := 0
	for _, domain := range domains {
		d := contract.Description{
			Name:         "x",
			Version:      "1",
			LabelDomains: []string{strings.TrimPrefix(domain, part+".")},
			Match:        contract.Match{Always: true},
		}
		for _, name := range names {
			for _, value := range append(names, domains...) {
				label := contract.Label{Key: domain + "/" + name, Value: value}
				if len(d.Check()) > 0 || len(d.CheckAnswer(contract.Answer{Labels: []contract.Label{label}}, nil)) > 0 {
					continue
				}
				accepted++
				err := errors.Join(kubelet.CheckLabel(label.Key, label.Value), kubelet.CheckNodeKey(label.Key, ""))
				if err != nil {
					t.Errorf("the contract accepts %q, want it refused, as a kubelet does: %v", label, err)
				}
			}
		}
	}
	if accepted == 0 {
		t.Error("got no accepted label, want some")
	}
}

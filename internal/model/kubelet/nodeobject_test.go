package kubelet

import (
	"testing"
	"time"
)

func TestParseNode(t *testing.T) {
	body := `{"kind":"Node","metadata":{"name":"n1","creationTimestamp":"2026-11-20T12:00:00Z","deletionTimestamp":"2026-11-20T12:00:05Z","labels":{"a":"b"}},"spec":{"taints":[{"key":"k","effect":"NoSchedule","timeAdded":"2026-11-20T12:00:00Z"},{"key":"l","value":"v","effect":"NoExecute"}]}}`
	n, err := ParseNode([]byte(body), "Fri, 20 Nov 2026 12:00:07 GMT")
	if err != nil || n.Name != "n1" || n.Labels["a"] != "b" || n.Age != 7*time.Second || n.Deleted != "2026-11-20T12:00:05Z" || len(n.Taints) != 2 ||
		n.Taints[0].String() != "k:NoSchedule" ||
		n.Taints[1].String() != "l=v:NoExecute" {
		t.Errorf("got %+v, %v; want the Node of the text", n, err)
	}
	if n, err := ParseNode([]byte(body), "yesterday"); err != nil || n.Age >= 0 {
		t.Errorf("without a clock: got %+v, %v; want age -1", n, err)
	}
	if n, err := ParseNode([]byte(body), "Fri, 20 Nov 2026 11:00:00 GMT"); err != nil || n.Age != 0 {
		t.Errorf("created in the future: got %+v, %v; want age 0", n, err)
	}
	for _, bad := range []string{"", "[]", `{"kind":"Pod","metadata":{"name":"x"}}`, `{"kind":"Node"}`} {
		if n, err := ParseNode([]byte(bad), ""); err == nil {
			t.Errorf("%q: got %+v, want an error", bad, n)
		}
	}
}

func FuzzParseNode(f *testing.F) {
	f.Add([]byte(`{"kind":"Node","metadata":{"name":"n1"}}`), "Fri, 20 Nov 2026 12:00:07 GMT")
	f.Fuzz(func(t *testing.T, body []byte, date string) {
		if n, err := ParseNode(body, date); err == nil && n.Name == "" {
			t.Errorf("got %+v without a name, want an error", n)
		}
	})
}

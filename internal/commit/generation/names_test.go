package generation

import "testing"

func TestScratchIsSwept(t *testing.T) {
	b := newBox(t)
	s := b.open()
	b.apply(s, plan("p1", file("/etc/kubernetes/a", "1")))
	names := map[string]bool{
		".kubelet.json.123": true,
		"kubelet.json":      false,
		".kubelet.json":     false,
		".json.1":           false,
		".kubelet.json.12x": false,
		".kubelet.json.":    false,
	}
	for n := range names {
		b.write("/var/lib/prelet/"+n, "x", 0o600)
	}
	if _, err := s.Recover(); err != nil {
		t.Fatal(err)
	}
	for n, gone := range names {
		if (b.read("/var/lib/prelet/"+n) == "absent") != gone {
			t.Errorf("%s: want it removed: %v", n, gone)
		}
	}
}

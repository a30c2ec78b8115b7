package kubelet

import (
	"math/rand/v2"
	"testing"
)

func TestParseCPUList(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "\n": "", "0": "0", "0-3,8": "0-3,8", "0-3,8\n": "0-3,8", "8,0-3": "0-3,8", "3,2,1": "1-3", "1,1,1": "1", "5-5": "5",
		"0-1,2-3": "0-3", "0,2,4": "0,2,4", "007": "7", "65535": "65535",
	} {
		got, err := ParseCPUList(text)
		if err != nil || got.String() != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	for _, bad := range []string{"0-", "-", "-1", "a", "0,,1", ",", "0,", "3-1", "0-3:2/4", " 0", "0 ", "1.5", "0x1", "65536", "99999999999999999999", "0-1-2", "+1", "\n\n"} {
		if got, err := ParseCPUList(bad); err == nil {
			t.Errorf("%q read as %q", bad, got)
		}
	}
}

func TestCPUSetOperations(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 2026))
	pick := func() CPUSet {
		var cpus []int
		for range random.IntN(20) {
			cpus = append(cpus, random.IntN(24))
		}
		return NewCPUSet(cpus...)
	}
	for range 2000 {
		a, b := pick(), pick()
		union, both, less := a.Union(b), a.Intersect(b), a.Minus(b)
		for cpu := range 25 {
			inA, inB := a.Contains(cpu), b.Contains(cpu)
			if union.Contains(cpu) != (inA || inB) || both.Contains(cpu) != (inA && inB) || less.Contains(cpu) != (inA && !inB) {
				t.Fatalf("%v, %v: cpu %d: union %v, both %v, less %v", a, b, cpu, union, both, less)
			}
		}
		if !both.SubsetOf(a) || !a.SubsetOf(union) || (len(less) > 0 && a.SubsetOf(b)) {
			t.Fatalf("%v, %v: subsets", a, b)
		}
		if again, err := ParseCPUList(a.String()); err != nil || !again.Equal(a) {
			t.Fatalf("%v prints as %q and reads as %v, %v", []int(a), a, again, err)
		}
	}
}

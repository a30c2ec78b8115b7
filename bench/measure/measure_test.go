package measure

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	tests := []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{7}, 7}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 2.5},
	}
	for _, test := range tests {
		before := slices.Clone(test.values)
		if got := Median(test.values); got != test.want {
			t.Errorf("Median(%v) = %v, want %v", test.values, got, test.want)
		}
		if !slices.Equal(before, test.values) {
			t.Errorf("median reordered its argument: %v", test.values)
		}
	}
}

// TestMeasure measures this test's own program doing nothing.
func TestMeasure(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := Command{Args: []string{self, "-test.run=^$"}, Env: os.Environ()}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]float64{"wall": s.WallMS, "CPU": s.CPUMS, "RSS": s.RSSMiB} {
		if v <= 0 || math.IsNaN(v) {
			t.Errorf("%s of a program: got %v, want more than 0", name, v)
		}
	}

	_, _, err = Command{Args: []string{self, "-test.nonsense"}, Env: os.Environ()}.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("a program that fails: got error %v, want its output in the error", err)
	}
}

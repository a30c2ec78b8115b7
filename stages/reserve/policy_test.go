package reserve

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/prelet/prelet/internal/testing/table"
)

// The rows of the tables that the policies' sources publish.
func TestCPUOfEachPolicy(t *testing.T) {
	for name, c := range map[string]struct {
		formula func(int64) (int64, []string)
		want    map[int64]string
	}{
		"gke, eks": {gkeCPU, map[int64]string{1: "60m", 2: "70m", 3: "75m", 4: "80m", 5: "82m", 6: "85m", 8: "90m", 16: "110m", 32: "150m", 64: "230m", 96: "310m", 224: "630m"}},
		"aks":      {aksCPU, map[int64]string{1: "60m", 2: "100m", 3: "120m", 4: "140m", 8: "180m", 16: "260m", 32: "420m", 64: "740m", 128: "1380m"}},
		"gdc":      {gdcCPU, map[int64]string{1: "90m", 4: "120m", 96: "1040m"}},
	} {
		for cpus, want := range c.want {
			got, steps := c.formula(cpus)
			if formatQuantity(cpu, got) != want {
				t.Errorf("%s: %d CPUs: got %s, want %s", name, cpus, formatQuantity(cpu, got), want)
			}
			if last := steps[len(steps)-1]; !strings.HasSuffix(last, ": "+want) {
				t.Errorf("%s: %d CPUs: the arithmetic ends with %q, want %s in it", name, cpus, last, want)
			}
		}
	}
}

func TestMemoryOfEachPolicy(t *testing.T) {
	for _, c := range []struct {
		name    string
		formula func(machine) (int64, []string)
		m       machine
		want    string
	}{
		{"gke below 1 GiB", gkeMemory, machine{memory: gib - 64*mib}, "255Mi"},
		{"gke 1 GiB", gkeMemory, machine{memory: gib}, "256Mi"},
		{"gke 4 GiB", gkeMemory, machine{memory: 4 * gib}, "1Gi"},
		{"gke 8 GiB", gkeMemory, machine{memory: 8 * gib}, "1843Mi"},
		{"gke 16 GiB, 2.6 GiB", gkeMemory, machine{memory: 16 * gib}, "2662Mi"},
		{"gke 64 GiB, 5.48 GiB", gkeMemory, machine{memory: 64 * gib}, "5611Mi"},
		{"gke 128 GiB, 9.32 GiB", gkeMemory, machine{memory: 128 * gib}, "9543Mi"},
		{"gke 256 GiB, 11.88 GiB", gkeMemory, machine{memory: 256 * gib}, "12165Mi"},
		{"aks, the pods are less", aksMemory, machine{memory: 8 * gib, pods: 30}, "650Mi"},
		{"aks, a quarter is less", aksMemory, machine{memory: 4 * gib, pods: 70}, "1Gi"},
		{"aks, as nodes run with", aksMemory, machine{memory: 32 * gib, pods: 110}, "2250Mi"},
		{"gdc 8 GiB", gdcMemory, machine{memory: 8 * gib}, "739Mi"},
	} {
		got, steps := c.formula(c.m)
		if formatQuantity(memory, got) != c.want {
			t.Errorf("%s: %s, want %s (%s)", c.name, formatQuantity(memory, got), c.want, strings.Join(steps, "; "))
		}
		if last := steps[len(steps)-1]; !strings.HasSuffix(last, ": "+c.want) {
			t.Errorf("%s: the arithmetic ends with %q, want %s", c.name, last, c.want)
		}
	}
	for pods, want := range map[int64]string{8: "343Mi", 29: "574Mi", 58: "893Mi", 110: "1465Mi", 234: "2829Mi", 737: "8362Mi"} {
		if got, _ := eksMemory(machine{pods: pods}); formatQuantity(memory, got) != want {
			t.Errorf("eks: %d pods reserve %s, want %s", pods, formatQuantity(memory, got), want)
		}
	}
}

func TestArithmeticInWords(t *testing.T) {
	words := func(_ int64, steps []string) string { return strings.Join(steps, "; ") }
	for got, want := range map[string]string{
		words(gkeCPU(16)): "6% of core 1: 60m; 1% of core 2: 10m; 0.5% of each of cores 3 to 4: 10m; 0.25% of each of cores " +
			"5 to 16: 30m; together: 110m",
		words(gkeMemory(machine{memory: 64 * gib})): "25% of the first 4Gi: 1Gi; 20% of the next 4Gi: 819.2Mi; 10% of the " +
			"next 8Gi: 819.2Mi; 6% of the next 48Gi: 2949.12Mi; together: 5611Mi",
		words(aksCPU(5)): "60m for core 1: 60m; 40m for core 2: 40m; 20m for each of cores 3 to 4: 40m; 10m for core 5: " +
			"10m; together: 150m",
	} {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// More memory never means that less is reserved, nor that less remains.
func TestFormulasAreMonotone(t *testing.T) {
	for name, formula := range map[string]func(machine) (int64, []string){
		"gke": gkeMemory, "gdc": gdcMemory, "aks": aksMemory,
	} {
		before, remained := int64(0), int64(-1)
		for bytes := 512 * mib; bytes < 300*gib; bytes += 64 * mib {
			now, _ := formula(machine{memory: bytes, pods: 250})
			if now < before || bytes-now < remained {
				t.Fatalf(
					"%s: at %s got %s reserved and %s left; want at least %s and %s, as with 64Mi less",
					name,
					formatQuantity(memory, bytes),
					formatQuantity(memory, now),
					formatQuantity(memory, bytes-now),
					formatQuantity(memory, before),
					formatQuantity(memory, remained),
				)
			}
			if now%mib != 0 {
				t.Fatalf("%s: at %s got %d bytes, want whole MiB", name, formatQuantity(memory, bytes), now)
			}
			before, remained = now, bytes-now
		}
	}
	for name, formula := range map[string]func(int64) (int64, []string){"gke": gkeCPU, "aks": aksCPU, "gdc": gdcCPU} {
		before := int64(0)
		for n := int64(1); n <= 1024; n++ {
			now, _ := formula(n)
			if now < before {
				t.Fatalf("%s: %d CPUs reserve %dm, %d reserve %dm; want no less", name, n-1, before, n, now)
			}
			before = now
		}
	}
}

func TestQuantitiesComeBack(t *testing.T) {
	for _, name := range resources() {
		for n := int64(0); n < 1<<52; n = n*3 + 1 {
			if name == cpu && n > maxCPUs*1000 {
				break
			}
			text := formatQuantity(name, n)
			back, err := parseQuantity(name, text)
			if err != nil || back != n {
				t.Fatalf("%s %d is printed %s, got %d and %v when parsed; want the same amount",
					name, n, text, back, err)
			}
			if canonical := resource.MustParse(text); canonical.String() != text {
				t.Fatalf("%s %d: got %s, want %s as Kubernetes prints", name, n, text, canonical.String())
			}
		}
	}
	for name, all := range table.YAML[map[string]map[string]string](t, `
cpu: {2000m: '2', '0.5': 500m, '1e1': '10', '0.0001': too fine, 70k: more than any machine}
memory:
  2048Mi: 2Gi
  8G: 8G
  1000Mi: 1000Mi
  16265420Ki: 16265420Ki
  '0': '0'
  '17179869184': 16Gi
  1x: invalid quantity
  -1Gi: negative
  100m: too fine
  1Ei: more than any machine
  '': invalid quantity
  99999999999999999999Ei: more than any machine
`) {
		for in, want := range all {
			n, err := parseQuantity(name, in)
			got := formatQuantity(name, n)
			if err != nil {
				got = err.Error()
			}
			if got != want && (err == nil || !strings.Contains(got, want)) {
				t.Errorf("%s %q: got %s, want %s", name, in, got, want)
			}
		}
	}
}

func TestPercent(t *testing.T) {
	for in, want := range map[string]int64{"0%": 0, "10%": 10, "100%": 100} {
		if n, err := parsePercent(in); err != nil || n != want {
			t.Errorf("%s: got %d and %v, want no error", in, n, err)
		}
	}
	for _, in := range []string{"10", "101%", "-1%", "1.5%", "%", "10 %", "10%%", "", "+5%"} {
		if n, err := parsePercent(in); err == nil || !strings.Contains(err.Error(), `as "10%"`) {
			t.Errorf("%q: got %d and %v, want an error", in, n, err)
		}
	}
}

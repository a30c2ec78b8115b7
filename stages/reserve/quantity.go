package reserve

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/schema"
)

// The resources that can be reserved. Amounts are int64: millicores of cpu, bytes of the others.
const (
	cpu     = "cpu"
	memory  = "memory"
	storage = "ephemeral-storage"
)

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30

	maxCPUs  = 1 << 16        // more than Linux supports; millicores stay far from overflow
	maxBytes = int64(1) << 53 // 8 PiB; a hundred times that is still an int64
)

func resources() []string {
	return []string{cpu, memory, storage}
}

// parseQuantity parses a Kubernetes quantity. Parts of a millicore or of a byte are refused, because they would
// silently be rounded.
func parseQuantity(name, text string) (int64, error) {
	q, err := kubelet.ParseQuantity(text)

	switch {
	case err != nil:
		return 0, fmt.Errorf(
			"invalid quantity %q of %s%s: write a number with a unit that Kubernetes knows, "+
				"as 500m or 2 of cpu, 512Mi or 8Gi of memory",
			text,
			name,
			suggestQuantity(name, text),
		)
	case q.Sign() < 0:
		return 0, fmt.Errorf("%q of %s is negative: reserve 0 or more", text, name)
	case name == cpu && q.CmpInt64(maxCPUs) > 0, name != cpu && q.CmpInt64(maxBytes) > 0:
		return 0, fmt.Errorf("%q of %s is more than any machine has", text, name)
	}

	n := q.Value()
	exact := resource.NewQuantity(n, resource.DecimalSI)
	if name == cpu {
		n = q.MilliValue()
		exact = resource.NewMilliQuantity(n, resource.DecimalSI)
	}
	if q.Cmp(*exact) != 0 && strings.Contains(text, ".") && name != cpu {
		return 0, fmt.Errorf("%q of %s is not a whole number of bytes: write bytes, as \"${floor(BYTES)}\"", text, name)
	}
	if q.Cmp(*exact) != 0 {
		return 0, fmt.Errorf(
			"%q of %s is too fine%s: the least is 1m of cpu, "+
				"and 1 byte of the others (m means thousandths)",
			text,
			name,
			suggestQuantity(name, text),
		)
	}

	return n, nil
}

// suggestQuantity returns the amount that was probably meant, with a unit as people write it: 512mi, 512m, 8GB.
func suggestQuantity(name, text string) string {
	end := len(strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))
	number, unit := strings.TrimSpace(text[:end]), strings.ToLower(text[end:])
	meant := ""
	switch {
	case name == cpu && (strings.HasPrefix(unit, "core") || strings.HasPrefix(unit, "cpu")):
		meant = number
	case name == cpu && strings.HasPrefix(unit, "milli"):
		meant = number + "m"
	case name != cpu && unit != "" && strings.Contains("kmgt", unit[:1]):
		meant = number + strings.ToUpper(unit[:1]) + "i"
	}
	if _, err := kubelet.ParseQuantity(meant); meant == "" || err != nil {
		return ""
	}

	return fmt.Sprintf(" (did you mean %q?)", meant)
}

// quantity formats an amount in Kubernetes' canonical form: the shorter one of powers of two and of ten for bytes.
func formatQuantity(name string, n int64) string {
	if name == cpu {
		return resource.NewMilliQuantity(n, resource.DecimalSI).String()
	}

	two := resource.NewQuantity(n, resource.BinarySI).String()
	ten := resource.NewQuantity(n, resource.DecimalSI).String()
	if len(ten) < len(two) {
		return ten
	}

	return two
}

// quantityOf returns a check for an attribute that is an amount.
func quantityOf(name string) func(string) error {
	return func(text string) error {
		return checkAmount(name, text)
	}
}

// checkAmount checks an amount in the site. A few bytes without a unit are nearly always meant as Gi.
func checkAmount(name, text string) error {
	n, err := parseQuantity(name, text)
	if err != nil || name == cpu || n == 0 || n >= kubelet.MinAmount {
		return err
	}

	if _, err := strconv.Atoi(text); err == nil && n < kib {
		unit := "Gi"
		if n > 64 {
			unit = "Mi"
		}

		return fmt.Errorf("%q of %s is %s bytes: write a unit, as %q; the least is 16Mi, or 0",
			text, name, text, text+unit)
	}

	return fmt.Errorf("%q of %s is less than any machine needs: the least is 16Mi, or 0", text, name)
}

// parsePercent parses "10%": a whole number from 0 to 100.
func parsePercent(text string) (int64, error) {
	digits, ok := strings.CutSuffix(text, "%")
	n, err := strconv.ParseUint(digits, 10, 8)
	if !ok || err != nil || n > 100 {
		return 0, fmt.Errorf(
			"invalid percentage %q: write a whole number from 0 to 100 and %%, as \"10%%\"",
			text,
		)
	}

	return int64(n), nil
}

// count returns a check for an attribute that is a whole number.
func count(least int64) func(int64) error {
	return func(n int64) error {
		if n < least || n > maxCPUs {
			return fmt.Errorf("%d is not possible: a whole number from %d to %d is needed", n, least, maxCPUs)
		}

		return nil
	}
}

// bounds checks floor and cap. A null amount does not limit.
func bounds(m map[string]*string) error {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(resources(), name) {
			return fmt.Errorf("unknown resource %q. %s", name, schema.Suggest(name, resources()))
		}
		if m[name] == nil {
			continue
		}
		if err := checkAmount(name, *m[name]); err != nil {
			return err
		}
	}

	return nil
}

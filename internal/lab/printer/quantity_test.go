package printer

import "testing"

func TestAmount(t *testing.T) {
	for _, c := range []struct{ resource, quantity, want string }{
		{"memory", "2037400128Ki", "1943Gi"},
		{"memory", "2928176Ki", "2.8Gi"},
		{"memory", "3927600Ki", "3.7Gi"},
		{"memory", "1048575Ki", "1024Mi"}, // below one Gi
		{"memory", "123456789", "117.7Mi"},
		{"memory", "2000000k", "1.9Gi"},
		{"ephemeral-storage", "104857600k", "97.7Gi"},
		{"memory.available", "524300Ki", "512Mi"},
		// What can be read stays exact.
		{"memory", "22370Mi", "22370Mi"},
		{"memory", "0", "0"},
		{"memory", "1023Ki", "1023Ki"},
		{"memory.available", "5%", "5%"},
		{"cpu", "1930m", "1930m"},
		{"cpu", "2000000000", "2000000000"},
		{"hugepages-2Mi", "2097152Ki", "2097152Ki"},
		{"memory", "-5", "-5"},
	} {
		if got := formatAmount(c.resource, c.quantity); got != c.want {
			t.Errorf("%s=%s: %s, not %s", c.resource, c.quantity, got, c.want)
		}
	}
}

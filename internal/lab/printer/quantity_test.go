package printer

import (
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

func TestAmount(t *testing.T) {
	for _, c := range table.YAML[[]struct{ Resource, Quantity, Want string }](t, `
- {resource: memory, quantity: 2037400128Ki, want: 1943Gi}
- {resource: memory, quantity: 2928176Ki, want: 2.8Gi}
- {resource: memory, quantity: 3927600Ki, want: 3.7Gi}
# below one Gi
- {resource: memory, quantity: 1048575Ki, want: 1024Mi}
- {resource: memory, quantity: '123456789', want: 117.7Mi}
- {resource: memory, quantity: 2000000k, want: 1.9Gi}
- {resource: ephemeral-storage, quantity: 104857600k, want: 97.7Gi}
- {resource: memory.available, quantity: 524300Ki, want: 512Mi}
# What can be read stays exact.
- {resource: memory, quantity: 22370Mi, want: 22370Mi}
- {resource: memory, quantity: '0', want: '0'}
- {resource: memory, quantity: 1023Ki, want: 1023Ki}
- {resource: memory.available, quantity: 5%, want: 5%}
- {resource: cpu, quantity: 1930m, want: 1930m}
- {resource: cpu, quantity: '2000000000', want: '2000000000'}
- {resource: hugepages-2Mi, quantity: 2097152Ki, want: 2097152Ki}
- {resource: memory, quantity: '-5', want: '-5'}
`) {
		if got := formatAmount(c.Resource, c.Quantity); got != c.Want {
			t.Errorf("%s=%s: %s, not %s", c.Resource, c.Quantity, got, c.Want)
		}
	}
}

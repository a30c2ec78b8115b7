package write

import (
	"testing"

	"github.com/prelet/prelet/internal/model/desired"
)

// A setting that takes a field of the base away must not vanish from a drop-in: the base's value would stay.
func TestDropInValue(t *testing.T) {
	for _, c := range []struct {
		setting node.Setting
		want    any
		ok      bool
	}{
		{node.Setting{Path: []string{"maxPods"}, Value: int64(64)}, int64(64), true},
		{node.Setting{Path: []string{"systemReserved", "memory"}, Delete: true}, "0", true},
		{node.Setting{Path: []string{"kubeReserved", "cpu"}, Delete: true}, "0", true},
		{node.Setting{Path: []string{"reservedSystemCPUs"}, Delete: true}, "", true},
		{node.Setting{Path: []string{"allowedUnsafeSysctls"}, Delete: true}, nil, false},
		{node.Setting{Path: []string{"evictionHard", "memory.available"}, Delete: true}, nil, false},
	} {
		got, ok := dropInValue(c.setting)
		if got != c.want || ok != c.ok {
			t.Errorf("%v: got %v, %v; want %v, %v", c.setting.Path, got, ok, c.want, c.ok)
		}
	}
}

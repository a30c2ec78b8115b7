package write

import (
	"testing"

	"github.com/prelet/prelet/internal/model/desired"
)

// A setting that takes a field of the base away must not vanish from a drop-in: the base's value would stay.
func TestDropInValue(t *testing.T) {
	for _, c := range []struct {
		setting desired.Setting
		want    any
		ok      bool
	}{
		{desired.Setting{Path: []string{"maxPods"}, Value: int64(64)}, int64(64), true},
		{desired.Setting{Path: []string{"systemReserved", "memory"}, Delete: true}, "0", true},
		{desired.Setting{Path: []string{"kubeReserved", "cpu"}, Delete: true}, "0", true},
		{desired.Setting{Path: []string{"reservedSystemCPUs"}, Delete: true}, "", true},
		{desired.Setting{Path: []string{"allowedUnsafeSysctls"}, Delete: true}, nil, false},
		{desired.Setting{Path: []string{"evictionHard", "memory.available"}, Delete: true}, nil, false},
	} {
		got, ok := dropInValue(c.setting)
		if got != c.want || ok != c.ok {
			t.Errorf("%v: got %v, %v; want %v, %v", c.setting.Path, got, ok, c.want, c.ok)
		}
	}
}

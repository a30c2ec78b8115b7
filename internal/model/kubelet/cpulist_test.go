package kubelet

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

func TestParseCPUSet(t *testing.T) {
	for text, want := range table.YAML[map[string]string](t, `
'': ''
'0': '0'
'0-3,8': 0-3,8
'8,0-3': 0-3,8
'3,2,1': 1-3
'1,1,1': '1'
5-5: '5'
'0-1,2-3': 0-3
'+1': '1'
0-+2: 0-2
'0,2,4': 0,2,4
'007': '7'
'65535': '65535'
`) {
		got, err := ParseCPUSet(text)
		if err != nil || got.String() != want {
			t.Errorf("%q: got %q, %v; want %q", text, got, err, want)
		}
	}
	for _, bad := range []string{"0-", "-", "-1", "a", "0,,1", ",", "0,", "3-1", "0-3:2/4", " 0", "0 ", "1.5", "0x1", "0\n", "\n", "65536", "99999999999999999999", "0-1-2", "++1", "\n\n",
		"0-4294967295", "0-65535,0-65535", strings.Repeat("0-65535,", 1000) + "0"} {
		if got, err := ParseCPUSet(bad); err == nil {
			t.Errorf("%.40q: got %q, want an error", bad, got)
		}
	}
}

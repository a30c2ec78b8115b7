package tape

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

// What identifies a machine has a name; what many machines share is left out.
func TestIdentities(t *testing.T) {
	entry := func(kind Kind, args, value string) Entry {
		return Entry{Question{kind, args}, Answer{Value: json.RawMessage(value)}}
	}
	r := &Recording{Entries: []Entry{
		entry(KindKubelet, `{}`, `{"identity":{"node":"gpu-17.example","host":"gpu-17"}}`),
		entry(KindFile, `{"path":"/etc/machine-id"}`, `{"text":"0123456789abcdef0123456789abcd01\n"}`),
		entry(KindFile, `{"path":"/etc/motd"}`, `{"text":"hello world"}`),
		entry(KindHardware, `{}`, `{
			"interfaces": {
				"eth0": {"ipv4": ["198.51.100.7", "198.51.100.8"], "ipv6": ["fe80::1"], "mac": "02:00:5e:00:53:01"},
				"kube-ipvs0": {"ipv4": ["10.96.0.10", "10.96.0.1"], "mac": ""},
				"bond0": {"mac": "02:00:5e:00:53:01"},
				"lo": {"ipv4": ["127.0.0.1", "169.254.0.9"], "ipv6": ["::1"], "mac": "00:00:00:00:00:00"}
			},
			"guids": {"mlx5_0": "0002:c903:0000:1234"},
			"product": {"serial": "None", "uuid": "4c4c4544-0000-1000-8000-000000000001"},
			"chassis": {"serial": "To be filled by O.E.M.", "asset_tag": "12"},
			"block_devices": [{"name": "sda", "serial": "S3RI4L", "wwn": null}]
		}`),
		entry(KindDetector, `{"name":"x"}`, `{"devices":[{"attributes":{"serial_number":"ABC-77","model":"Big"}}]}`),
	}}
	want := table.YAML[map[string]string](t, `
gpu-17.example: node name
gpu-17: host name
0123456789abcdef0123456789abcd01: machine id
198.51.100.7: address of eth0
fe80::1: IPv6 address of eth0
02:00:5e:00:53:01: MAC address of bond0
02:00:5E:00:53:01: MAC address of bond0
02005e005301: digits of the MAC address of bond0
0002:c903:0000:1234: GUID of mlx5_0
4c4c4544-0000-1000-8000-000000000001: uuid
S3RI4L: serial number of sda
ABC-77: detector devices 1 attributes serial_number
`)
	var decoded Facts
	must(t, json.Unmarshal(r.Entries[3].Answer.Value, &decoded))
	for _, facts := range []*Facts{nil, &decoded} {
		if got := r.Identities(facts); !maps.Equal(got, want) {
			t.Errorf("Identities(%v):\ngot  %v\nwant %v", facts, got, want)
		}
	}
}

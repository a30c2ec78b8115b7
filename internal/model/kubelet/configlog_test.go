package kubelet

import (
	"fmt"
	"strings"
	"testing"
)

// loggedConfig is the entry of a kubelet v1.37.1, shortened.
const loggedConfig = `I1122 22:10:03.251417    4711 server.go:256] "Effective KubeletConfiguration" config=<
	apiVersion: kubelet.config.k8s.io/v1beta1
	evictionHard:
	  memory.available: 100Mi
	kind: KubeletConfiguration
	maxPods: 110
 >`

func TestParseLoggedConfig(t *testing.T) {
	const before = "I1122 22:10:03.100000    4711 server.go:1] \"before\"\n"
	const after = "\nI1122 22:10:03.260000    4711 flags.go:64] \"FLAG: --v=\\\"0\\\"\"\n\tnot a part of it"
	asJSON := func(message, config string) string {
		return fmt.Sprintf(`{"ts":1700000000000.1,"caller":"app/server.go:256","msg":%q,"v":0,"config":%q}`, message, config)
	}
	other := strings.Replace(loggedConfig, "maxPods: 110", "maxPods: 7", 1)

	for _, c := range []struct {
		name, log string
		want      string // maxPods; "" for no configuration
		wantErr   string
	}{
		{name: "an empty log"},
		{name: "an older kubelet", log: before + `I1122 22:10:03.2 1 flags.go:64] "FLAG: --config=\"/x\""`},
		{name: "text", log: before + loggedConfig + after, want: "110"},
		{name: "of two starts the last", log: loggedConfig + "\n" + other, want: "7"},
		{name: "JSON", log: asJSON("Effective KubeletConfiguration", "apiVersion: kubelet.config.k8s.io/v1beta1\n"+
			"kind: KubeletConfiguration\nmaxPods: 110\n"), want: "110"},
		{name: "JSON of another entry that quotes it", log: asJSON("a pod said Effective KubeletConfiguration", "x")},
		{name: "text of another entry that quotes it", log: `I1122 22:10:03.2 1 x.go:1] "x" err="\"Effective ` +
			`KubeletConfiguration\" config=<"`},
		{name: "cut off at the end", log: loggedConfig[:len(loggedConfig)-3], wantErr: "is cut off"},
		{name: "cut off by another entry", log: strings.Replace(loggedConfig, "\tmaxPods: 110\n >", "E1122 x", 1),
			wantErr: "is cut off"},
		{name: "JSON that is cut off", log: asJSON("Effective KubeletConfiguration", "x")[:90], wantErr: "is cut off"},
		{name: "garbage", log: strings.Replace(loggedConfig, "maxPods: 110", "maxPods: [", 1),
			wantErr: "the configuration in the kubelet's log: "},
		{name: "another kind", log: strings.Replace(loggedConfig, "kind: Kubelet", "kind: KubeProxy", 1),
			wantErr: "kind is"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseLoggedConfig(strings.Split(c.log, "\n"))
			if (err == nil) != (c.wantErr == "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("got error %v, want %q in it", err, c.wantErr)
			}
			pods := ""
			if got != nil {
				pods = fmt.Sprint(got["maxPods"])
			}
			if pods != c.want {
				t.Errorf("got maxPods %q of %v, want %q", pods, got, c.want)
			}
		})
	}
}

// TestSecretFieldIsNotCompared: the log masks the headers of static pods, and a message must not quote them.
func TestSecretFieldIsNotCompared(t *testing.T) {
	header := map[string]any{"Authorization": []any{"Bearer made-up"}}
	planned := map[string]any{"staticPodURLHeader": header, "maxPods": 1}
	running := map[string]any{"staticPodURLHeader": map[string]any{"Authorization": []any{"<masked>"}}, "maxPods": 2}

	got := ConfigDifferences(planned, running)
	if len(got) != 1 || got[0] != "maxPods is 2 and not 1" {
		t.Errorf("got %q, want only maxPods", got)
	}
	if kept := WithoutSecrets(planned); len(kept) != 1 || planned["staticPodURLHeader"] == nil {
		t.Errorf("got %v of %v, want only maxPods, and the original unchanged", kept, planned)
	}
}

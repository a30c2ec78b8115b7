package kube

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

// agreementFew is how many inputs of each kind are tried where nothing else is asked for: 165 in all.
const agreementFew = 11

// inputKind makes inputs of one kind; i counts them.
type inputKind struct {
	name string
	make func(g *inputs, i int) inputCase
}

func inputKinds() []inputKind {
	return []inputKind{
		{"field", (*inputs).oneField},
		{"combination", (*inputs).combination},
		{"raw", (*inputs).raw},
		{"gate", (*inputs).gate},
		{"flag", (*inputs).flag},
		{"label", (*inputs).label},
		{"taint", (*inputs).taint},
		{"duration", (*inputs).duration},
		{"integer", (*inputs).integer},
		{"manager", (*inputs).manager},
		{"valid", (*inputs).valid},
		{"threshold", (*inputs).threshold},
		{"quantity", (*inputs).reserved},
		{"list", (*inputs).list},
		{"drop-in", (*inputs).dropIn},
	}
}

// inputs makes random ones.
type inputs struct {
	*rand.Rand
	fields []knownField
	gates  []string
	flags  []knownFlag
}

// knownFlag is a flag that some kubelet has had, and what it takes.
type knownFlag struct {
	name  string
	isNow bool // in the newest version
	takes string
	field string // of the configuration, that it sets
}

// knownField is a field of KubeletConfiguration that holds no other fields, with its Go type.
type knownField struct {
	path []string
	of   reflect.Type
}

func newInputs(t *testing.T, r *rand.Rand) *inputs {
	t.Helper()
	g := &inputs{Rand: r}
	g.add(nil, reflect.TypeFor[v1beta1.KubeletConfiguration]())

	// The names of flags and gates are of the tables. What is wrong with them is not: a kubelet is asked.
	text, err := os.ReadFile("../../internal/kubelet/known/tables.txt")
	must(t, err)
	for line := range strings.Lines(string(text)) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), "\t")
		name, _, _ := strings.Cut(rest, "\t")
		switch kind {
		case "gate":
			g.gates = append(g.gates, name)
		case "flag":
			states := strings.Split(rest, ";")
			now := states[len(states)-1]
			_, now, _ = strings.Cut(now, "=")
			words := strings.Fields(now)
			f := knownFlag{name: name, isNow: words[0] != "-", takes: words[0]}
			for _, w := range words {
				if strings.HasPrefix(w, ">") {
					f.field = w[1:]
				}
			}
			g.flags = append(g.flags, f)
		}
	}

	return g
}

func (g *inputs) add(path []string, of reflect.Type) {
	for i := range of.NumField() {
		f := of.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" && strings.Contains(options, "inline") || f.Anonymous && name == "" {
			if f.Type != reflect.TypeFor[metav1.TypeMeta]() {
				g.add(path, f.Type)
			}

			continue
		}

		in := f.Type
		if in.Kind() == reflect.Pointer {
			in = in.Elem()
		}
		here := append(slices.Clone(path), name)
		if in.Kind() == reflect.Struct && !slices.Contains(wholeTypes(), in) {
			g.add(here, in)
		} else {
			g.fields = append(g.fields, knownField{here, in})
		}
	}
}

// wholeTypes are structs that are one value in a file.
func wholeTypes() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[metav1.Duration](),
		reflect.TypeFor[resource.Quantity](),
		reflect.TypeFor[resource.QuantityValue](),
		reflect.TypeFor[metav1.Time](),
	}
}

func pick[T any](g *inputs, of ...T) T { return of[g.IntN(len(of))] }

// with is a case whose configuration has these fields over the baseline.
func with(fields map[string]any, flags ...string) inputCase {
	var config map[string]any
	if err := yaml.Unmarshal([]byte(baseline), &config); err != nil {
		panic(err)
	}
	merged(config, fields)
	text, err := yaml.Marshal(config)
	if err != nil {
		panic(err)
	}

	return inputCase{Config: string(text), Flags: flags}
}

func nested(path []string, v any) map[string]any {
	for _, name := range slices.Backward(path) {
		v = map[string]any{name: v}
	}

	return v.(map[string]any)
}

func (g *inputs) oneField(i int) inputCase {
	f := g.fields[(i*7+g.IntN(len(g.fields)))%len(g.fields)]
	return with(nested(f.path, g.value(f)))
}

// value is a random one for a field, often right and sometimes of a wrong type.
func (g *inputs) value(f knownField) any {
	if g.IntN(12) == 0 {
		return pick[any](g, "x", 1, true, []any{}, map[string]any{}, -1.5, []any{"a"}, map[string]any{"a": "b"}, "")
	}

	switch {
	case f.of == reflect.TypeFor[metav1.Duration]():
		return pick[any](g, durations()...)
	case f.of == reflect.TypeFor[resource.Quantity](), f.of == reflect.TypeFor[resource.QuantityValue]():
		return pick[any](g, "0", "64Ki", "1Gi", "-1", "x")
	}

	name := f.path[len(f.path)-1]
	switch f.of.Kind() {
	case reflect.Bool:
		return g.IntN(2) == 0
	case reflect.Int32, reflect.Int64, reflect.Int, reflect.Uint32:
		return pick[any](g, 0, -1, 1, 2, 5, 20, 80, 110, 1000, 65536, 131072, 2147483647)
	case reflect.Float64:
		return pick[any](g, 0, 0.5, 1, 1.5, -0.5)
	case reflect.String:
		return g.text(name)
	case reflect.Map:
		return pick[any](
			g,
			map[string]any{},
			map[string]any{"memory": "100Mi"},
			map[string]any{"memory.available": "5%"},
			map[string]any{"a": "b"},
			map[string]any{"cpu": "100m", "pid": "100"},
		)
	case reflect.Slice:
		return pick[any](
			g,
			[]any{},
			[]any{"a"},
			[]any{"10.0.0.10"},
			[]any{"pods"},
			[]any{map[string]any{"key": "a", "effect": "NoSchedule"}},
			[]any{"net.ipv4.tcp_syncookies"},
		)
	}

	return nil
}

// text is a string for a field of this name: words that it takes, and others.
func (g *inputs) text(name string) string {
	words := map[string][]string{
		"address": {"0.0.0.0", "127.0.0.1", "10.0.0.5", "::", "::1", "203.0.113.9", "nosuch", ""}, "healthzBindAddress": {"0.0.0.0", "127.0.0.1", "nosuch", ""},
		"mode": {"AlwaysAllow", "AlwaysDeny", "x"}, "format": {"text", "json", "xml", ""}, "cgroupDriver": {"systemd", "cgroupfs"},
		"cpuManagerPolicy": {"none", "static", "None"}, "memoryManagerPolicy": {"None", "Static", "none"},
		"topologyManagerPolicy": {"none", "best-effort", "restricted", "single-numa-node", "x"}, "topologyManagerScope": {"container", "pod", "node"},
		"hairpinMode": {"hairpin-veth", "promiscuous-bridge", "none", "x"}, "containerLogMaxSize": {"10Mi", "-1", "-10Mi", "0", "1500m", "x", "1G"},
		"configMapAndSecretChangeDetectionStrategy": {"Get", "Cache", "x"}, "swapBehavior": {"NoSwap", "UnlimitedSwap", "", "x"},
		"tlsMinVersion": {"VersionTLS12", "VersionTLS13", "1.2"}, "reservedSystemCPUs": {"0", "+0", "0-1", "0\n", "0-", "99", " 0", "0,0"},
		"podLogsDir": {"/var/log/pods", "logs", "/var/log//x", "/var/log/é"}, "endpoint": {"127.0.0.1:4317", "http://x:1", "unix:///x", ""},
		"contentType": {"application/json", "application/vnd.kubernetes.protobuf", "x"}, "resolvConf": {"/etc/resolv.conf", "", "/run/nothing"},
		"cgroupRoot": {"/", "/is/there", "/is/not", ""}, "systemCgroups": {"/", "/x", ""}, "memoryReservationPolicy": {"None", "TieredReservation", "x"},
		"systemReservedCgroup": {"/is/there", "/is/not", ""}, "kubeReservedCgroup": {"/is/there", ""}, "kubeletCgroups": {"/is/there", ""},
		"imagePullCredentialsVerificationPolicy": {"AlwaysVerify", "NeverVerify", "x", ""}, "showHiddenMetricsForVersion": {"1.36", "1.35", ""},
		"staticPodURL": {"http://127.0.0.1:1/x", ""}, "staticPodPath": {"/etc/kubernetes/manifests", "/run/nothing", ""},
		"clientCAFile": {"", "/etc/none", "none"}, "tlsCertFile": {"", "/etc/none"}, "tlsPrivateKeyFile": {""}, "volumePluginDir": {"/var/lib/x", ""},
		"containerRuntimeEndpoint": {"", "containerd.sock", "http://x", "tcp://x"}, "imageServiceEndpoint": {"", "http://x", "x.sock"},
		"providerID": {"x://y", ""}, "clusterDomain": {"cluster.local", ""},
	}[name]
	if len(words) == 0 {
		words = []string{"", "x", "a b"}
	}

	return pick(g, words...)
}

func durations() []any {
	return []any{
		"0s",
		"-1s",
		"1ns",
		"1h30m",
		"87600h",
		"1s",
		"100ms",
		"3s",
		"10s",
		"5m",
		"300s",
		"0",
		"ten",
		"1d",
		0,
		5,
		5000000000,
	}
}

// ofKind is the i-th field of these types, and a value.
func (g *inputs) ofKind(i int, is func(knownField) bool, values []any) inputCase {
	var fields []knownField
	for _, f := range g.fields {
		if is(f) {
			fields = append(fields, f)
		}
	}
	f := fields[(i+g.IntN(len(fields)))%len(fields)]

	return with(nested(f.path, pick(g, values...)))
}

func (g *inputs) duration(i int) inputCase {
	is := func(f knownField) bool {
		return f.of == reflect.TypeFor[metav1.Duration]() || slices.Equal(f.path, []string{"logging", "flushFrequency"})
	}

	return g.ofKind(
		i,
		is,
		[]any{
			"0s",
			"-1s",
			"1ns",
			"1h30m",
			"87600h",
			"1s",
			"250ms",
			"4s",
			"2m",
			g.anyDuration(),
			g.anyDuration(),
			g.anyDuration(),
		},
	)
}

func (g *inputs) integer(i int) inputCase {
	return g.ofKind(i, func(f knownField) bool {
		return slices.Contains([]reflect.Kind{reflect.Int32, reflect.Int64, reflect.Uint32}, f.of.Kind()) &&
			f.of != reflect.TypeFor[time.Duration]()
	}, []any{0, -1, 1, 2, 50, 100, 65535, 65536, 1 << 20, 2147483647, json.Number("2147483648"), json.Number("4294967295"),
		g.nearBound(), g.nearBound(), g.nearBound(), g.nearBound(), g.nearBound(), g.nearBound()})
}

// nearBound is a number at a bound that something has, or somewhere between.
func (g *inputs) nearBound() json.Number {
	if g.IntN(3) == 0 {
		return json.Number(strconv.FormatInt(g.Int64N(1<<(1+g.IntN(62))), 10))
	}
	bound := pick(
		g,
		"0",
		"1",
		"16",
		"31",
		"100",
		"1000",
		"1024",
		"10248",
		"32767",
		"65535",
		"4194304",
		"2147483647",
		"4294967295",
		"9223372036854775807",
	)
	n, _ := new(big.Int).SetString(bound, 10)

	return json.Number(n.Add(n, big.NewInt(int64(g.IntN(3)-1))).String())
}

// anyDuration is one of any unit and size, now and then malformed.
func (g *inputs) anyDuration() string {
	if g.IntN(8) == 0 {
		return pick(
			g,
			"2562047h47m16s",
			"2562047h48m",
			"9223372036854775807ns",
			"+5m",
			".5s",
			"5",
			"1d",
			"1 s",
			"",
			"1e3s",
			"0x5s",
			"1.5",
			"-0s",
			"s",
		)
	}

	return strconv.Itoa(g.IntN(1<<(1+g.IntN(12)))) + pick(g, "ns", "us", "ms", "s", "s", "m", "h", "m30s", ".5s")
}

// amount is a quantity of any size with any suffix, now and then malformed or negative.
func (g *inputs) amount() string {
	if g.IntN(8) == 0 {
		return pick(
			g,
			"9223372036854775807",
			"9223372036854775808",
			"18446744073709551616",
			"10e18",
			"1e30",
			"1e-30",
			"-1",
			"-0",
			"+1Gi",
			"0x10",
			"010Mi",
			"1K",
			"1mi",
			"1gb",
			"1 Gi",
			"",
			".",
			"1.2.3",
			"NaN",
			"Inf",
			".5Gi",
			"5.",
			"1e",
			"1_0",
			"8Ei",
			"16Ei",
		)
	}
	number := strconv.Itoa(g.IntN(1 << (1 + g.IntN(12))))
	if g.IntN(4) == 0 {
		number += "." + strconv.Itoa(g.IntN(1000))
	}

	return number + pick(
		g,
		"",
		"m",
		"u",
		"n",
		"k",
		"M",
		"G",
		"T",
		"P",
		"E",
		"Ki",
		"Mi",
		"Mi",
		"Gi",
		"Gi",
		"Ti",
		"Pi",
		"Ei",
		"e3",
		"E6",
		"e9",
	)
}

// percentage is one between -1 and 101, now and then malformed.
func (g *inputs) percentage() string {
	switch g.IntN(4) {
	case 0:
		return pick(
			g,
			"0%",
			"100%",
			"0.0%",
			"100.0%",
			"-0%",
			"-0.1%",
			"100.1%",
			"100.000001%",
			"99.99999%",
			"NaN%",
			"nan%",
			"Inf%",
			"-Inf%",
			"1e2%",
			"1e39%",
			"0x10p0%",
			"5%%",
			"%",
			"5 %",
			"+5%",
			"1_0%",
			"5%Mi",
		)
	case 1:
		return strconv.FormatFloat(g.Float64()*102-1, 'f', g.IntN(9), 64) + "%"
	default:
		return strconv.Itoa(g.IntN(100)) + "%"
	}
}

// threshold is of any signal, in a file or as a flag, sometimes together with amounts.
func (g *inputs) threshold(int) inputCase {
	signal := pick(g, "memory.available", "nodefs.available")
	if g.IntN(3) == 0 {
		signal = pick(
			g,
			"nodefs.inodesFree",
			"imagefs.available",
			"pid.available",
			"allocatableMemory.available",
			"containerfs.available",
		)
	}
	value := g.amount()
	if g.IntN(3) == 0 {
		value = g.percentage()
	}
	field := pick(g, "evictionHard", "evictionHard", "evictionHard", "evictionSoft", "evictionMinimumReclaim")
	fields := map[string]any{}
	if g.IntN(3) == 0 {
		fields["kubeReserved"] = map[string]any{pick(g, "memory", "ephemeral-storage"): pick(g, "0", "100Mi", "1Gi")}
	}
	if field == "evictionSoft" {
		fields["evictionSoftGracePeriod"] = map[string]any{signal: pick(g, "1m", "90s", g.anyDuration())}
	}
	if g.IntN(3) > 0 || strings.Contains(value, ",") {
		fields[field] = map[string]any{signal: value}
		return with(fields)
	}
	name := map[string]string{"evictionHard": "eviction-hard=%s<%s", "evictionSoft": "eviction-soft=%s<%s", "evictionMinimumReclaim": "eviction-minimum-reclaim=%s=%s"}[field]

	return with(fields, fmt.Sprintf(name, signal, value))
}

// reserved has amounts of any size.
func (g *inputs) reserved(int) inputCase {
	fields, flags := map[string]any{}, []string(nil)
	for range 1 + g.IntN(2) {
		field, name, amount := pick(
			g,
			"kubeReserved",
			"systemReserved",
		), pick(
			g,
			"cpu",
			"memory",
			"memory",
			"ephemeral-storage",
			"pid",
		), g.amount()
		if g.IntN(3) > 0 {
			fields[field] = map[string]any{name: amount}
			continue
		}
		flags = append(
			flags,
			map[string]string{"kubeReserved": "kube-reserved", "systemReserved": "system-reserved"}[field]+"="+name+"="+amount,
		)
	}
	if g.IntN(6) == 0 {
		fields["containerLogMaxSize"] = g.amount()
	}

	return with(fields, flags...)
}

// list is a flag that takes a list, with elements that are empty, in quotes or among spaces, or one that takes a
// number, spelled in any way.
func (g *inputs) list(int) inputCase {
	if g.IntN(4) == 0 {
		name := pick(
			g,
			"v",
			"v",
			"max-pods",
			"image-gc-low-threshold",
			"oom-score-adj",
			"pod-max-pids",
			"kube-api-burst",
			"node-status-max-images",
		)
		return with(
			nil,
			name+"="+pick(
				g,
				strconv.Itoa(g.IntN(60)),
				"+5",
				"0x2",
				"0b11",
				"0o7",
				"010",
				"1_0",
				"5.0",
				"1e1",
				"5 ",
				"-0",
				"",
				"2147483648",
				"4294967296",
				"9223372036854775808",
			),
		)
	}

	flags := map[string][]string{
		"tls-cipher-suites": {
			"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
			"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
		},
		"enforce-node-allocatable": {
			"pods",
		},
		"allowed-unsafe-sysctls": {"net.core.somaxconn", "kernel.msg*"},
		"cluster-dns":            {"10.96.0.10", "fd00::a"},
		"feature-gates": {
			"LoggingAlphaOptions=true",
			"AllBeta=false",
		},
		"kube-reserved": {"cpu=100m", "memory=64Mi"},
		"eviction-hard": {"memory.available<5%", "pid.available<10%"},
		"topology-manager-policy-options": {
			"prefer-closest-numa-nodes=true",
		},
		"cpu-manager-policy-options": {"full-pcpus-only=true"},
		"manifest-url-header":        {"a:b", "c:d:e"},
		"eviction-minimum-reclaim": {
			"memory.available=1Mi",
			"nodefs.available=5%",
		},
		"vmodule":         {"a=1", "b=2"},
		"reserved-memory": {"0:memory=100Mi"},
		"node-labels": {
			"a=b",
			"example.com/c=",
		},
		"register-with-taints": {"a=b:NoSchedule", "b:NoExecute", "c:NoSchedule-", "d-"},
	}
	name := pick(g, slices.Sorted(maps.Keys(flags))...)
	var words []string
	for range g.IntN(3) {
		words = append(words, pick(g, flags[name]...))
	}
	odd := []string{"", "", "", "\"\"", "x", "=", ":"}
	if name != "node-labels" && name != "register-with-taints" { // which are written into quotes here
		odd = append(odd, " ", "\"", "'")
	}
	if g.IntN(3) > 0 {
		words = slices.Insert(words, g.IntN(len(words)+1), pick(g, odd...))
	}
	if name == "node-labels" || name == "register-with-taints" {
		words = slices.DeleteFunc(words, func(w string) bool { return strings.Contains(w, "\"") })
	}

	return with(nil, name+"="+strings.Join(words, ","))
}

// dropIn has a folder of drop-ins that others have left, over a configuration of another kind. Each may set, replace or
// remove what an earlier file has, so that either of the two decides.
func (g *inputs) dropIn(i int) inputCase {
	c := g.oneOf(i)
	c.DropIns = map[string]string{}
	var last *knownField
	for range 1 + g.IntN(3) {
		names := []string{
			"10-a.conf", "40-nodeadm.conf", "9.conf", "Z.conf", "sub/20-b.conf", "00-first.conf", "99.conf", ".conf",
		}
		name := pick(g, names...)
		if g.IntN(10) == 0 {
			name = pick(g, "README", "50-off.yaml", "50-off.conf.bak")
		}
		c.DropIns[name] = g.dropInText(i, &last)
	}

	return c
}

// oneOf is an input of a kind that makes a configuration.
func (g *inputs) oneOf(i int) inputCase {
	return pick(
		g,
		(*inputs).oneField, (*inputs).combination, (*inputs).duration, (*inputs).integer, (*inputs).manager,
		(*inputs).valid, (*inputs).valid, (*inputs).valid, (*inputs).valid, (*inputs).valid, (*inputs).valid,
		(*inputs).threshold, (*inputs).reserved,
	)(g, i)
}

// dropInText is the text of a drop-in: one field, which may be that of the last one, all of another input, or now and
// then something that the kubelet may not read.
func (g *inputs) dropInText(i int, last **knownField) string {
	const header = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	if g.IntN(12) == 0 {
		return pick(
			g, "", "maxPods: 20\n", header, header+"maxPods: 20\nmaxPods: 30\n", header+"---\n", "---\n"+header, "{}",
			`{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","maxPods":20}`,
			`{apiVersion: kubelet.config.k8s.io/v1beta1, kind: KubeletConfiguration, maxPods: 20}`,
			header+"\tmaxPods: 20\n", header+"nosuch: 1\n", header+"maxPods: [\n", "kind: KubeletConfiguration\n",
			"apiVersion: v1\nkind: ConfigMap\n", header+"failCgroupV1: null\n", header+"enforceNodeAllocatable: []\n",
		)
	}
	if g.IntN(4) == 0 {
		return g.oneOf(i).Config
	}
	if *last == nil || g.IntN(3) > 0 {
		*last = &g.fields[g.IntN(len(g.fields))]
	}
	value := g.value(**last)
	if g.IntN(8) == 0 {
		value = nil
	}
	text, err := yaml.Marshal(nested((*last).path, value))
	if err != nil {
		panic(err)
	}

	return header + string(text)
}

func (g *inputs) gate(int) inputCase {
	set := map[string]any{}
	for range 1 + g.IntN(2) {
		name := pick(g, g.gates...)
		switch g.IntN(20) {
		case 0:
			name = "NoSuchGate"
		case 1:
			name = pick(g, "AllAlpha", "AllBeta")
		}
		set[name] = g.IntN(2) == 0
	}
	if g.IntN(4) > 0 {
		return with(map[string]any{"featureGates": set})
	}

	var list []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		list = append(list, fmt.Sprintf("%s=%t", name, set[name]))
	}

	return with(nil, pick(g, "feature-gates=", "feature_gates=")+strings.Join(list, ","))
}

// flag is one flag that some kubelet has had, with a value that may be right.
func (g *inputs) flag(int) inputCase {
	var out []string
	for range 1 + g.IntN(2) {
		f := pick(g, g.flags...)
		for slices.Contains(notTried(), f.name) || !f.isNow && g.IntN(8) > 0 {
			f = pick(g, g.flags...)
		}
		name := f.name
		if g.IntN(3) == 0 {
			name = strings.ReplaceAll(name, "-", "_")
		}
		if g.IntN(8) == 0 {
			out = append(out, name+"="+g.flagValue(f))
		}
		out = append(out, name+"="+g.flagValue(f))
	}

	return with(nil, out...)
}

// flagValue is a value of the type that a flag takes, or now and then any other.
func (g *inputs) flagValue(f knownFlag) string {
	if g.IntN(6) == 0 {
		return pick(g, "true", "0", "10s", "x", "", "-1", "10.0.0.5", "/var/lib/kubelet-case/x", "100Mi", "a=b", "text")
	}

	i := slices.IndexFunc(g.fields, func(k knownField) bool { return strings.Join(k.path, ".") == f.field })
	switch {
	case f.takes == "bool":
		return pick(g, "true", "false")
	case f.takes == "ip":
		return pick(g, "10.0.0.5", "0.0.0.0", "127.0.0.1", "::", "")
	case strings.HasPrefix(f.takes, "int"):
		return pick(g, "0", "1", "-1", "100")
	case f.takes == "duration":
		return pick(g, "0s", "10s", "1m", "-1s")
	case f.field == "featureGates":
		return pick(g, g.gates...) + "=" + pick(g, "true", "false")
	case i < 0:
		return pick(g, "", "x", "/var/lib/kubelet-case/x")
	}

	switch v := g.value(g.fields[i]).(type) {
	case map[string]any:
		sign := "="
		if f.field == "evictionHard" || f.field == "evictionSoft" {
			sign = "<"
		}
		var list []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			list = append(list, name+sign+fmt.Sprint(v[name]))
		}

		return strings.Join(list, ",")
	case []any:
		var list []string
		for _, e := range v {
			list = append(list, fmt.Sprint(e))
		}

		return strings.ReplaceAll(strings.Join(list, ","), " ", "_")
	default:
		return strings.ReplaceAll(fmt.Sprint(v), "\n", "")
	}
}

// notTried are flags that make the kubelet another program, or need a cluster.
func notTried() []string {
	return []string{
		"help",
		"h",
		"config",
		"kubeconfig",
		"bootstrap-kubeconfig",
		"root-dir",
		"hostname-override",
		"config-dir",
		"cert-dir",
		"lock-file",
		"exit-on-lock-contention",
		"node-labels",
		"register-with-taints",
		"container-runtime-endpoint",
		"image-service-endpoint",
		"runonce",
		"write-config-to",
	}
}

func (g *inputs) label(int) inputCase {
	key := func() string {
		if g.IntN(2) == 0 {
			return pick(
				g,
				"a",
				"example.com/a",
				"topology.kubernetes.io/zone",
				"node.kubernetes.io/x",
				"A_b.c",
				"kubernetes.io/os",
			)
		}
		return pick(
			g,
			"a",
			"example.com/a",
			"node-role.kubernetes.io/x",
			"kubernetes.io/hostname",
			"node.kubernetes.io/x",
			"kubelet.kubernetes.io/x",
			"topology.kubernetes.io/zone",
			"x.node-restriction.kubernetes.io/a",
			"k8s.io/a",
			"kubernetes.io/arch",
			"-a",
			"a/b/c",
			"UPPER/x",
			"example.com/",
			"/a",
			"a_b.c-d",
			strings.Repeat("k", 63),
			strings.Repeat("k", 64),
			strings.Repeat("d", 63)+".example/x",
			"é",
			"failure-domain.beta.kubernetes.io/zone",
		)
	}
	value := func() string {
		if g.IntN(2) == 0 {
			return pick(g, "", "b", "1.2_3-x")
		}
		return pick(
			g,
			"",
			"b",
			"a.b_c-d",
			"-b",
			"b-",
			strings.Repeat("v", 63),
			strings.Repeat("v", 64),
			"ä",
			"1",
			"a/b",
			"a:b",
		)
	}

	var list []string
	for range 1 + g.IntN(3) {
		list = append(list, key()+"="+value())
	}

	return with(nil, pick(g, "node-labels=", "node-labels=", "node_labels=")+strings.Join(list, ","))
}

func (g *inputs) taint(int) inputCase {
	key := func() string {
		if g.IntN(2) == 0 {
			return pick(g, "a", "example.com/a", "node.kubernetes.io/unschedulable")
		}
		return pick(
			g,
			"a",
			"example.com/a",
			"-a",
			"a/b/c",
			"",
			"node.kubernetes.io/unschedulable",
			strings.Repeat("k", 64),
		)
	}
	value := func() string { return pick(g, "", "b", "", "1", "b", "b b", "-", strings.Repeat("v", 64)) }
	effect := func() string {
		return pick(
			g,
			"NoSchedule",
			"NoSchedule",
			"NoExecute",
			"NoExecute",
			"PreferNoSchedule",
			"NoSchedul",
			"noschedule",
			"",
		)
	}

	if g.IntN(2) == 0 {
		var list []any
		for range 1 + g.IntN(2) {
			list = append(list, map[string]any{"key": key(), "value": value(), "effect": effect()})
		}

		return with(map[string]any{"registerWithTaints": list})
	}

	var list []string
	for range 1 + g.IntN(2) {
		list = append(list, pick(g, key()+"="+strings.ReplaceAll(value(), " ", "_")+":"+effect(), key()+":"+effect()))
	}

	return with(nil, pick(g, "register-with-taints=", "register_with_taints=")+strings.Join(list, ","))
}

func (g *inputs) manager(int) inputCase {
	fields := map[string]any{}
	maybe := func(odds int, name string, values ...any) {
		if g.IntN(odds) > 0 {
			fields[name] = pick(g, values...)
		}
	}
	maybe(4, "cpuManagerPolicy", "none", "static", "static")
	maybe(3, "reservedSystemCPUs", "0", "1", "0-1", "9", "+0")
	maybe(
		2,
		"kubeReserved",
		map[string]any{"cpu": "100m"},
		map[string]any{"memory": "924Mi"},
		map[string]any{"cpu": "0", "memory": "924Mi"},
	)
	maybe(2, "systemReserved", map[string]any{"cpu": "100m", "memory": "100Mi"}, map[string]any{})
	maybe(2, "memoryManagerPolicy", "None", "Static", "Static")
	maybe(
		2,
		"reservedMemory",
		[]any{map[string]any{"numaNode": 0, "limits": map[string]any{"memory": "1Gi"}}},
		[]any{
			map[string]any{"numaNode": 0, "limits": map[string]any{"memory": "1124Mi"}},
		},
		[]any{map[string]any{"numaNode": 7, "limits": map[string]any{"memory": "1Gi"}}},
		[]any{},
	)
	maybe(2, "topologyManagerPolicy", "none", "best-effort", "restricted", "single-numa-node")
	maybe(2, "topologyManagerScope", "container", "pod")
	if g.IntN(3) == 0 {
		fields["cpuManagerPolicyOptions"] = map[string]any{
			pick(g, "full-pcpus-only", "distribute-cpus-across-numa", "align-by-socket", "strict-cpu-reservation", "x"): pick(
				g,
				"true",
				"false",
				"maybe",
			),
		}
	}
	if g.IntN(4) == 0 {
		fields["topologyManagerPolicyOptions"] = map[string]any{
			pick(g, "prefer-closest-numa-nodes", "max-allowable-numa-nodes", "x"): pick(g, "true", "9", "4"),
		}
	}

	return with(fields)
}

// combination has several fields that depend on each other.
func (g *inputs) combination(int) inputCase {
	p := func(values ...any) any { return pick(g, values...) }
	fields := []func() map[string]any{
		func() map[string]any {
			return map[string]any{
				"imageGCHighThresholdPercent": p(0, 50, 85, 100, 101),
				"imageGCLowThresholdPercent":  p(0, 50, 80, 99),
			}
		},
		func() map[string]any {
			return map[string]any{
				"imageMinimumGCAge": p("0s", "1s", "2m", "-1s"),
				"imageMaximumGCAge": p("0s", "1s", "3m", "2m", "-1s"),
			}
		},
		func() map[string]any {
			return map[string]any{
				"shutdownGracePeriod":             p("0s", "30s", "500ms"),
				"shutdownGracePeriodCriticalPods": p("0s", "10s", "40s", "10ms"),
			}
		},
		func() map[string]any {
			return map[string]any{
				"evictionSoft": map[string]any{
					p("memory.available", "nodefs.available", "x").(string): p("5%", "100Mi", "0%", "200%", "x"),
				},
				"evictionSoftGracePeriod": map[string]any{
					p("memory.available", "nodefs.available").(string): p("1m", "-1s", "0s"),
				},
			}
		},
		func() map[string]any {
			return map[string]any{
				"evictionHard": map[string]any{
					p("memory.available", "pid.available", "imagefs.inodesFree").(string): p(
						"5%",
						"0",
						"100Mi",
						"0%",
						"-1Mi",
						"5.5%",
					),
				},
				"mergeDefaultEvictionSettings": p(
					true,
					false,
				),
				"evictionMinimumReclaim": map[string]any{"memory.available": p("0", "-1", "5%", "0%", "1Gi")},
			}
		},
		func() map[string]any {
			return map[string]any{
				"enforceNodeAllocatable": p(
					[]any{"pods", "system-reserved"},
					[]any{"none"},
					[]any{},
					[]any{"kube-reserved-compressible"},
					[]any{"pods", "none"},
				),
				"cgroupsPerQOS": p(
					true,
					true,
					false,
				),
				"systemReserved": p(map[string]any{"cpu": "100m"}, map[string]any{}, map[string]any{"cpu": "-1"}),
				"systemReservedCgroup": p(
					"/is/there",
					"/is/not",
					"",
				),
				"kubeReservedCgroup": p("", "/is/there"),
				"kubeReserved":       p(map[string]any{"memory": "64Mi"}, map[string]any{}),
			}
		},
		func() map[string]any {
			return map[string]any{
				"port":         p(0, 10250, 10255, 10248),
				"readOnlyPort": p(0, 10255, 10250),
				"healthzPort":  p(0, 10248, 10250, 10255),
			}
		},
		func() map[string]any {
			return map[string]any{
				"enableServer": p(true, false),
				"address":      p("0.0.0.0", "127.0.0.1", "203.0.113.9", "x"),
				"readOnlyPort": p(0, 10255),
			}
		},
		func() map[string]any {
			return map[string]any{
				"containerLogMaxFiles":        p(0, 1, 2, 5),
				"containerLogMaxSize":         p("-1", "0", "10Mi", "1k"),
				"containerLogMaxWorkers":      p(0, 1, 2),
				"containerLogMonitorInterval": p("3s", "0s", "2999ms"),
			}
		},
		func() map[string]any {
			return map[string]any{"serializeImagePulls": p(true, false), "maxParallelImagePulls": p(0, 1, 2)}
		},
		func() map[string]any {
			return map[string]any{
				"logging": map[string]any{
					"format":         p("text", "json"),
					"flushFrequency": p("0s", "5s", 0, 5000000000, "-1s", -1),
					"verbosity":      p(0, 2),
					"vmodule":        p([]any{}, []any{map[string]any{"filePattern": "a", "verbosity": 1}}),
					"options": p(
						map[string]any{},
						map[string]any{"json": map[string]any{"infoBufferSize": p("0", "64Ki")}},
						map[string]any{"text": map[string]any{"splitStream": p(true, false)}},
					),
				},
			}
		},
		func() map[string]any {
			return map[string]any{
				"featureGates": map[string]any{
					p("LoggingAlphaOptions", "CustomCPUCFSQuotaPeriod", "KubeletCrashLoopBackOffMax").(string): p(
						true,
						false,
					),
				},
				"cpuCFSQuotaPeriod": p(
					"0s",
					"100ms",
					"1ms",
					"2s",
				),
				"crashLoopBackOff": map[string]any{"maxContainerRestartPeriod": p("0s", "1s", "300s", "301s")},
			}
		},
		func() map[string]any {
			return map[string]any{
				"maxPods": p(0, 110, 250, 65535, 70000),
				"userNamespaces": map[string]any{
					"idsPerPod": p(0, 65536, 131072, 65537, int64(4294901760), int64(2147483648)),
				},
			}
		},
		func() map[string]any {
			return map[string]any{"systemCgroups": p("", "/", "/x"), "cgroupRoot": p("", "/", "/is/there", "/is/not")}
		},
		func() map[string]any {
			return map[string]any{
				"tlsMinVersion": p("VersionTLS12", "VersionTLS13"),
				"tlsCipherSuites": p([]any{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
					[]any{"TLS_RSA_WITH_AES_128_CBC_SHA"}, []any{"x"}, []any{}),
			}
		},
		func() map[string]any {
			return map[string]any{
				"imagePullCredentialsVerificationPolicy": p(
					"NeverVerify",
					"NeverVerifyAllowlistedImages",
					"AlwaysVerify",
				),
				"preloadedImagesVerificationAllowlist": p(
					[]any{},
					[]any{"registry.example/x"},
					[]any{"registry.example/x:tag"},
					[]any{"*"},
				),
			}
		},
		func() map[string]any {
			return map[string]any{
				"memorySwap":             map[string]any{"swapBehavior": p("", "NoSwap", "UnlimitedSwap")},
				"failSwapOn":             p(true, false),
				"memoryThrottlingFactor": p(0.9, 0, 1.1, 1),
			}
		},
		func() map[string]any {
			return map[string]any{
				"runtimeRequestTimeout": p("0s", "2m", "-1s", "1ns", "10s"),
				"maxOpenFiles":          p(0, 1000000, 1, -1, 10000),
			}
		},
	}

	out := fields[g.IntN(len(fields))]()
	if g.IntN(3) == 0 {
		merged(out, fields[g.IntN(len(fields))]())
	}

	return with(out)
}

// raw is the text of a file in many forms.
func (g *inputs) raw(int) inputCase {
	n := strconv.Itoa(pick(g, 20, 64, 110))
	plain := baseline
	asJSON := func(extra string) string {
		var config map[string]any
		if err := yaml.Unmarshal([]byte(baseline), &config); err != nil {
			panic(err)
		}
		b, err := json.Marshal(config)
		if err != nil {
			panic(err)
		}

		return strings.TrimSuffix(string(b), "}") + extra + "}"
	}

	return inputCase{Config: pick(g,
		plain+"maxPods: "+n+"\nmaxPods: "+n+"\n",
		plain+"kubeReserved: {cpu: 100m}\nkubeReserved: {memory: 100Mi}\n",
		plain+"kubeReserved: {cpu: 100m, cpu: 200m}\n",
		plain+"kubeReserved: &r {cpu: 100m}\nsystemReserved: *r\n",
		plain+"kubeReserved: &r {cpu: 100m}\nsystemReserved:\n  <<: *r\n  memory: 100Mi\n",
		plain+"kubeReserved: &r {cpu: 100m}\n",
		plain+"systemReserved: *nosuch\n",
		"---\n"+plain,
		plain+"...\n",
		plain+"---\n",
		"%YAML 1.1\n---\n"+plain,
		"\ufeff"+plain,
		strings.ReplaceAll(plain, "\n", "\r\n"),
		plain+"maxPods: 0x20\n",
		plain+"maxPods: 0o17\n",
		plain+"maxPods: 1e2\n",
		plain+"maxPods: 1_0\n",
		plain+"maxPods: "+n+".0\n",
		plain+"maxPods: '"+n+"'\n",
		plain+"maxPods: ~\n",
		plain+"maxPods: null\nclusterDNS: null\n",
		plain+"makeIPTablesUtilChains: yes\n",
		plain+"makeIPTablesUtilChains: 'yes'\n",
		plain+"makeIPTablesUtilChains: On\n",
		plain+"clusterDomain: >\n  cluster.local\n",
		plain+"clusterDomain: |-\n  cluster.local\n",
		plain+"reservedSystemCPUs: |\n  0\n",
		plain+"reservedSystemCPUs: |-\n  0\n",
		plain+"reservedSystemCPUs: 0\n",
		plain+"syncFrequency: 1:30\n",
		plain+"\tmaxPods: 5\n",
		plain+"maxPods:\t"+n+"\n",
		plain+"# a comment\nmaxPods: "+n+" # another\n",
		plain+"providerID: \"\\ud83d\\ude00\"\n",
		plain+"providerID: \"\\u00e4\"\n",
		plain+"providerID: \xff\xfe\n",
		plain+"nosuch: 1\n",
		plain+"maxpods: 5\n",
		plain+"'maxPods': "+n+"\n",
		plain+"? maxPods\n: "+n+"\n",
		plain+"clusterDNS:\n- 10.0.0.10\n",
		plain+"clusterDNS: [10.0.0.10,]\n",
		plain+"clusterDNS: !!str x\n",
		plain+"maxPods: !!int \""+n+"\"\n",
		plain+"providerID: !nosuch x\n",
		plain+"# "+strings.Repeat("x", 1<<20)+"\n",
		plain+strings.Repeat("# a line of a long comment\n", 50000),
		plain+"[]\n",
		plain+"a: b: c\n",
		strings.Replace(plain, "kind: KubeletConfiguration\n", "", 1),
		strings.Replace(plain, "apiVersion: kubelet.config.k8s.io/v1beta1\n", "", 1),
		strings.Replace(plain, "KubeletConfiguration", "Kubeletconfiguration", 1),
		strings.Replace(plain, "v1beta1", "v1", 1),
		"\n",
		"# nothing\n",
		"[]\n",
		asJSON(""),
		asJSON(`,"maxPods":`+n),
		asJSON(`,"providerID":"\ud83d\ude00"`),
		asJSON(`,"providerID":"\ud83d"`),
		asJSON(`,"maxPods":1,"maxPods":`+n),
		asJSON(`,"kubeReserved":{"cpu":"100m"},"kubeReserved":{"memory":"x"}`),
		asJSON(`,"kubeReserved":{"memory":"x"},"kubeReserved":{"memory":"100Mi"}`),
		asJSON(`,"nosuch":{}`),
		asJSON(`,"maxPods":1e2`),
		asJSON(`,"maxPods":`+n+`.0`),
		"\n  "+asJSON(""),
	)}
}

// valid has several fields, all of them right.
func (g *inputs) valid(int) inputCase {
	all := map[string][]any{
		"maxPods": {
			20,
			64,
			110,
			250,
		},
		"podPidsLimit":              {-1, 1024, 4096},
		"syncFrequency":             {"1m", "30s"},
		"nodeStatusUpdateFrequency": {"10s", "1m"},
		"evictionHard": {
			map[string]any{"memory.available": "100Mi", "nodefs.available": "10%"},
			map[string]any{"memory.available": "5%"},
		},
		"kubeReserved": {
			map[string]any{"cpu": "100m", "memory": "128Mi"},
			map[string]any{"memory": "64Mi", "ephemeral-storage": "1Gi", "pid": "1000"},
		},
		"systemReserved": {
			map[string]any{"cpu": "50m"},
			map[string]any{"memory": "64Mi"},
		},
		"containerLogMaxSize": {"50Mi", "-1", "1G"},
		"containerLogMaxFiles": {
			2,
			5,
			10,
		},
		"containerLogMonitorInterval": {"3s", "10s"},
		"serializeImagePulls":         {true, false},
		"registryPullQPS":             {0, 5, 50},
		"eventRecordQPS": {
			0,
			5,
			50,
		},
		"kubeAPIQPS":                  {50, 100},
		"kubeAPIBurst":                {100, 200},
		"imageGCHighThresholdPercent": {85, 90},
		"imageGCLowThresholdPercent":  {10, 80},
		"imageMinimumGCAge": {
			"2m",
			"0s",
		},
		"imageMaximumGCAge":   {"0s", "168h"},
		"shutdownGracePeriod": {"0s", "60s"},
		"rotateCertificates":  {true, false},
		"clusterDNS": {
			[]any{"10.96.0.10"},
			[]any{"10.96.0.10", "fd00::a"},
		},
		"clusterDomain": {"cluster.local"},
		"resolvConf":    {"/etc/resolv.conf"},
		"topologyManagerPolicy": {
			"none",
			"best-effort",
		},
		"cpuManagerReconcilePeriod": {"0s", "10s"},
		"protectKernelDefaults":     {false},
		"seccompDefault":            {true, false},
		"allowedUnsafeSysctls": {
			[]any{"net.core.somaxconn"},
			[]any{"kernel.msg*"},
		},
		"enableDebuggingHandlers": {true, false},
		"failSwapOn":              {false},
		"healthzPort": {
			10248,
			0,
		},
		"readOnlyPort":             {0, 10255},
		"oomScoreAdj":              {-999, 0},
		"maxOpenFiles":             {1000000, 0},
		"nodeLeaseDurationSeconds": {40, 0},
		"featureGates": {
			map[string]any{"LoggingAlphaOptions": true},
			map[string]any{"CustomCPUCFSQuotaPeriod": true},
		},
		"memorySwap": {map[string]any{"swapBehavior": "NoSwap"}, map[string]any{}},
		"tlsMinVersion": {
			"VersionTLS12",
			"VersionTLS13",
		},
		"registerWithTaints": {[]any{map[string]any{"key": "a", "effect": "NoSchedule"}}},
		"logging": {
			map[string]any{"verbosity": 2},
			map[string]any{"format": "json", "flushFrequency": 0},
			map[string]any{"flushFrequency": "0s"},
		},
	}
	names := slices.Sorted(maps.Keys(all))
	fields := map[string]any{}
	for range 4 + g.IntN(9) {
		name := pick(g, names...)
		fields[name] = pick(g, all[name]...)
	}

	return with(fields)
}

// excuse says why a disagreement is right, or is of how the kubelet is asked here; "" for one that counts.
func excuse(r agreement) string {
	for _, e := range excusesKnown() {
		if r.kubelet == e.starts && strings.Contains(r.said+r.complaint, e.words) {
			return e.why
		}
	}

	return ""
}

// excuseKnown is one disagreement in which prelet is right, or in which the input is not checked by one of them.
type excuseKnown struct {
	starts     bool // the kubelet accepts it, and prelet does not
	words, why string
}

// excusesKnown is at most 20 long.
func excusesKnown() []excuseKnown {
	return []excuseKnown{
		{true, "healthzPort are both", "a race: one of two listeners ends the kubelet, or /healthz is never served"},
		{false, "no client provided", "asked without an API server; a kubelet that has one starts"},
		{
			true,
			"unknown configmap and secret manager mode",
			"asked without an API server; a kubelet that has one ends with these words",
		},
		{true, "is set without tls", "the kubelet runs without a certificate, and every connection to its API fails"},
		{true, `invalid effect ""`, "the kubelet runs, and the API server refuses its Node"},
		{
			false,
			"validate CRI v1 image API for endpoint",
			"what listens there may start between prelet and the kubelet: a warning",
		},
	}
}

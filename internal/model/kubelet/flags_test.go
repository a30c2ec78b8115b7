package kubelet

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/internal/testing/table"
)

func mustFlags(t testing.TB, value string) *Flags {
	t.Helper()
	f, err := ParseFlags(value)
	must(t, err)
	return f
}

func mustEnv(t testing.TB, text string) *EnvFile {
	t.Helper()
	f, err := ParseEnvFile(text)
	must(t, err)
	return f
}

func TestFlagsLookup(t *testing.T) {
	for _, c := range table.YAML[[]struct {
		Value, Name, Want string
		OK                bool
	}](t, `
- {value: --a b, name: a, want: b, ok: true}
- {value: --a=b, name: --a, want: b, ok: true}
- {value: --a=b=c, name: a, want: b=c, ok: true}
- {value: -v=4, name: v, want: '4', ok: true}
- {value: -v 4, name: v, want: '4', ok: true}
- {value: -v4, name: v, want: '4', ok: true}
- {value: --v=4, name: v, want: '4', ok: true}
- {value: --x=, name: x, ok: true}
- {value: --x "", name: x, ok: true}
- {value: --x '' --y=1, name: 'y', want: '1', ok: true}
- {value: --fail-swap-on, name: fail-swap-on, want: 'true', ok: true}
# pflag: the word is stray
- {value: --fail-swap-on false, name: fail-swap-on, want: 'true', ok: true}
- {value: --fail-swap-on=false, name: fail-swap-on, want: 'false', ok: true}
- {value: --logtostderr --v 2, name: logtostderr, want: 'true', ok: true}
- {value: --logtostderr --v 2, name: v, want: '2', ok: true}
# pflag: whatever the next word is
- {value: --unknown --v=2, name: unknown, want: --v=2, ok: true}
- {value: --unknown --v=2, name: v}
- {value: --x -- --y=1, name: x, want: --, ok: true}
- {value: --v=2 --x, name: x, ok: true}
- {value: --oom-score-adj -999, name: oom-score-adj, want: '-999', ok: true}
- {value: --node_labels a=b, name: node-labels, want: a=b, ok: true}
- {value: --node-ip 1 --node-ip 2, name: node-ip, want: '2', ok: true}
- {value: --node-labels=a=1 --node-labels=b=2, name: node-labels, want: 'a=1,b=2', ok: true}
- {value: --node-labels= --node-labels=b=2, name: node-labels, want: b=2, ok: true}
- value: --register-with-taints=a=1:NoSchedule --register-with-taints=b=:NoExecute
  name: register-with-taints
  want: b=:NoExecute
  ok: true
- {value: -- --a=b, name: a}
- {value: --ab=1, name: a}
- {name: a}
- {value: --a="b c" '--d=e f', name: a, want: b c, ok: true}
- {value: --a="b c" '--d=e f', name: d, want: e f, ok: true}
`) {
		got, ok := mustFlags(t, c.Value).Lookup(c.Name)
		if got != c.Want || ok != c.OK {
			t.Errorf("%q: Lookup(%s) = %q, %v, want %q, %v", c.Value, c.Name, got, ok, c.Want, c.OK)
		}
	}
}

// TestSpellings has each value of a flag also as its file writes it. The last use has none.
func TestSpellings(t *testing.T) {
	file := mustEnv(t, `KUBELET_EXTRA_ARGS="--a=b\\ c --v=2 --a 'd \"e' --a=f --a"`+"\n")
	flags, _ := file.Get("KUBELET_EXTRA_ARGS")
	want := []string{"b c", `b\\ c`, `d "e`, `'d \"e'`, "f", "f"}
	if got := flags.Spellings("a"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFlagsSet(t *testing.T) {
	for _, c := range table.YAML[[]struct{ Base, Name, Value, Want string }](t, `
- {name: a, value: b, want: --a=b}
- {base: --a=b, name: a, value: c, want: --a=c}
- {base: --a b  --c=d, name: a, value: x, want: --a x  --c=d}
- {base: --a b, name: a, want: --a ""}
- {base: --a b, name: a, value: -x, want: --a=-x}
- {base: --a b, name: a, value: x y, want: --a x\ y}
- {base: --x 1 --y 2, name: z, value: '3', want: --x 1 --y 2 --z 3}
- {base: --x 1 --y=2 --w=3, name: z, value: '3', want: --x 1 --y=2 --w=3 --z=3}
- {base: --x 1 --y 2, name: fail-swap-on, value: 'false', want: --x 1 --y 2 --fail-swap-on=false}
- base: --x 1 --y 2
  name: register-with-taints
  value: a=:NoSchedule
  want: --x 1 --y 2 --register-with-taints=a=:NoSchedule
- {base: --register-with-taints a=:NoSchedule --x 1, name: register-with-taints, want: --register-with-taints= --x 1}
- base: --register-with-taints a=:NoSchedule
  name: register-with-taints
  value: a=:NoSchedule
  want: --register-with-taints a=:NoSchedule
- {base: --fail-swap-on --x=1, name: fail-swap-on, value: 'true', want: --fail-swap-on --x=1}
- {base: --fail-swap-on --x=1, name: fail-swap-on, value: 'false', want: --fail-swap-on=false --x=1}
- {base: -v=4, name: v, value: '5', want: -v=5}
- {base: -v 4, name: v, value: '5', want: -v 5}
- {base: -v4, name: v, value: '5', want: -v5}
- {base: --node_ip=1, name: node-ip, value: '2', want: --node_ip=2}
- {base: --node-ip=1 --x=0 --node-ip=2, name: node-ip, value: '3', want: --node-ip=1 --x=0 --node-ip=3}
- {base: --node-labels=a=1 --x=0 --node-labels=b=2, name: node-labels, value: c=3, want: --x=0 --node-labels=c=3}
- {base: --a=b -- stray, name: c, value: d, want: --a=b --c=d -- stray}
- {base: -- stray, name: c, value: d, want: --c=d -- stray}
# it needs a value
- {base: --a=b --hostname-override, name: c, value: d, want: --a=b --c=d --hostname-override}
- {base: --hostname-override -- stray, name: c, value: d, want: --hostname-override -- stray --c d}
- {base: --a=b --fail-swap-on, name: c, value: d, want: --a=b --fail-swap-on --c=d}
- {base: --a="b c" --d=e, name: d, value: f, want: --a="b c" --d=f}
- {base: '"--a=b ''c"', name: a, value: x, want: --a=x}
- base: " --a=b\n\t"
  name: c
  value: d
  want: " --a=b --c=d\n\t"
- base: --allowed-unsafe-sysctls=kernel.shm*,net.* --a=1
  name: a
  value: '2'
  want: --allowed-unsafe-sysctls=kernel.shm*,net.* --a=2
`) {
		f := mustFlags(t, c.Base)
		if err := f.Set(c.Name, c.Value); err != nil {
			t.Errorf("%q: Set(%s, %q): got %v, want no error", c.Base, c.Name, c.Value, err)
			continue
		}
		if f.raw != c.Want {
			t.Errorf("%q: Set(%s, %q)\n got  %q\n want %q", c.Base, c.Name, c.Value, f.raw, c.Want)
		}
		if got, ok := f.Lookup(c.Name); !ok || got != c.Value {
			t.Errorf("%q: after Set(%s, %q): got %q, %v; want the value that was set", c.Base, c.Name, c.Value, got, ok)
		}
	}
}

func TestFlagsSetRefuses(t *testing.T) {
	for _, c := range [][2]string{{"", "x"}, {"a b", "x"}, {"a=b", "x"}, {"a", "x\ny"}, {"a", "x\x00"}, {"a", "\xff"}, {"a", "\r"}} {
		f := mustFlags(t, "--q=1")
		if err := f.Set(c[0], c[1]); err == nil || f.raw != "--q=1" {
			t.Errorf("Set(%q, %q): got error %v, text %q; want an error and no change", c[0], c[1], err, f.raw)
		}
	}
}

// The value of a production script, in both spellings, over several lines, with a line that somebody thought
// to be a comment.
func TestProductionFile(t *testing.T) {
	data := osfile.Read(t, "testdata/env/production")
	file := mustEnv(t, string(data))
	flags, ok := file.Get("KUBELET_EXTRA_ARGS")
	if !ok {
		t.Fatal("no KUBELET_EXTRA_ARGS")
	}
	for name, want := range table.YAML[map[string]string](t, `
allow-privileged: 'true'
hostname-override: 192.0.2.7
node-ip: 192.0.2.7
allowed-unsafe-sysctls: kernel.shm*,kernel.msg*,kernel.sem,fs.mqueue.*,net.*
pod-infra-container-image: harbor.example/pause-amd64:3.1
register-with-taints: node.netease.com/phase=checking:NoSchedule,node-role.kubernetes.io/master=:NoSchedule
node-labels: node-role.kubernetes.io/master=,node.netease.com/phase=checking
logtostderr: 'false'
feature-gates: SupportPodPidsLimit=true
v: '4'
cloud-provider: ''
# the # before it comments nothing out
max-pods: '60'
`) {
		if got, ok := flags.Lookup(name); !ok || got != want {
			t.Errorf("--%s is %q, %v, want %q", name, got, ok, want)
		}
	}
	if stray := flags.Stray(); !slices.Equal(stray, []Word{{Text: "#"}}) {
		t.Errorf("got stray words %v, want only #", stray)
	}
	taints, err := ParseTaints("node.netease.com/phase=checking:NoSchedule,node-role.kubernetes.io/master=:NoSchedule")
	if err != nil || len(taints) != 2 || taints[1] != (Taint{"node-role.kubernetes.io/master", "", "NoSchedule"}) {
		t.Errorf("got taints %v, %v; want two and no error", taints, err)
	}

	for _, set := range [][2]string{
		{"node-labels", "node-role.kubernetes.io/master=,node.netease.com/phase=checking,accelerator=nvidia-h100"},
		{"register-with-taints", "nvidia.com/gpu=true:NoSchedule"},
		{"node-ip", "192.0.2.8"},
		{"config-dir", "/etc/kubernetes/kubelet.conf.d"},
	} {
		must(t, flags.Set(set[0], set[1]))
	}
	must(t, file.Set("KUBELET_EXTRA_ARGS", flags))
	want := osfile.Read(t, "testdata/env/production.want")
	if file.String() != string(want) {
		t.Errorf("got:\n%s\nwant:\n%s", file, want)
	}
}

// Whatever the base: what Set says is what the process gets, and all other flags stay.
func TestFlagsSetProperty(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2026))
	pieces := table.YAML[[]string](t, `
- --a
- --a=b
- --b
- c
- -v=4
- -v
- '4'
- --node-labels
- x=y
- --fail-swap-on
- '#'
- --
- '""'
- '''q r'''
- '"s'
- '\ '
- |
  \
- $
- "\x60"
- \"
- ''''
`)
	gaps := []string{" ", "  ", "\t", " \\\n  ", "\\\n", "\n"}
	names := []string{"a", "b", "v", "node-labels", "new", "fail-swap-on", "register-with-taints"}
	values := []string{"", "x", "x y", `"`, "'", `\`, "a=b,c=d", "-1", "-x", "$HOME", "`", "#", "é"}
	for range 6000 {
		var b strings.Builder
		quote := []string{"", `"`, "'"}[random.IntN(3)]
		b.WriteString("A=1\nX=" + quote)
		for range random.IntN(6) {
			b.WriteString(pieces[random.IntN(len(pieces))] + gaps[random.IntN(len(gaps))])
		}
		b.WriteString(quote + []string{"", "\n", "\n# end\nB='2 3'\n"}[random.IntN(3)])
		checkSet(t, b.String(), names[random.IntN(len(names))], values[random.IntN(len(values))])
	}
}

func checkSet(t testing.TB, text, name, value string) {
	t.Helper()
	file := mustEnv(t, text)
	if file.String() != text {
		t.Fatalf("got %q to become %q, want it unchanged", text, file)
	}
	flags, ok := file.Get("X")
	if !ok {
		flags = mustFlags(t, "")
	}
	before := newFlags(flags.raw, flags.env)
	if err := flags.Set(name, value); err != nil {
		if flags.raw != before.raw {
			t.Fatalf("%q: got text %q after a failed Set, want no change", text, flags.raw)
		}
		return
	}
	// Taking a repeated flag out from between a flag that stands alone and a stray word joins these two; no kubelet
	// starts with such a base anyway.
	rejoins := isListFlag(name) && len(before.usesOf(name)) > 1 && len(before.Stray()) > 0
	argv := flags.Argv()
	if got, ok := flags.Lookup(name); (!ok || got != value) && !rejoins {
		t.Fatalf("%q: want Set(%s, %q) to be read back, got %q, %v in %q", text, name, value, got, ok, flags.raw)
	}
	for _, other := range before.Names() {
		if other == name || rejoins {
			continue
		}
		was, had := before.Lookup(other)
		if is, ok := flags.Lookup(other); ok != had || is != was {
			t.Fatalf("%q: want Set(%s, %q) to keep --%s, got %q of %q in %q",
				text, name, value, other, is, was, flags.raw)
		}
	}
	a, hadA := file.Value("A")
	if err := file.Set("X", flags); err != nil {
		return // an end of file inside of quotes; said, and nothing changed
	}
	again, ok := file.Get("X")
	if !ok || !slices.Equal(again.Argv(), argv) {
		t.Fatalf("%q: file gives %q, want %q", text, again.Argv(), argv)
	}
	if after, has := file.Value("A"); after != a || has != hadA {
		t.Fatalf("%q: want another variable unchanged, got %q, %v", text, after, has)
	}
}

// Any base with the flag in it, however quoted and spread over lines: only the value's bytes change.
func TestFlagsSetIsMinimal(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2026))
	others := []string{
		"--a=b",
		"--c d",
		"--fail-swap-on",
		"-v=4",
		"--w=kernel.shm*,net.*",
		"--e=",
		"# note",
		"--label=x=y,z=",
	}
	for range 4000 {
		target := []string{"--target=OLD", "--target OLD"}[random.IntN(2)]
		parts := []string{target}
		for range random.IntN(5) {
			parts = slices.Insert(parts, random.IntN(len(parts)+1), others[random.IntN(len(others))])
		}
		if i := slices.Index(parts, "# note"); i >= 0 && strings.HasPrefix(target, "--target ") &&
			slices.Index(parts, target) == i-1 {
			continue
		}
		quote := []string{`"`, "'", ""}[random.IntN(3)]
		gaps := table.YAML[map[string][]string](t, `
'"':
  - ' '
  - '  '
  - " \\\n  "
  - "\n"
  - "\t"
'''': [' ', "\n", '   ']
'':
  - ' '
  - " \\\n"
  - "\t \t"
`)[quote]
		var b strings.Builder
		for i, part := range parts {
			if i > 0 {
				b.WriteString(gaps[random.IntN(len(gaps))])
			}
			b.WriteString(part)
		}
		text := "# head\n\nOTHER='1 2'\nX=" + quote + b.String() + quote + "\n\n; tail"
		file := mustEnv(t, text)
		flags, _ := file.Get("X")
		must(t, flags.Set("target", "NEW"))
		must(t, file.Set("X", flags))
		if want := strings.Replace(text, "OLD", "NEW", 1); file.String() != want {
			t.Fatalf("base %q\n got %q\nwant %q", text, file, want)
		}
	}
}

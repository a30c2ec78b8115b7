package kubelet

import (
	"slices"
	"strings"
	"testing"
)

// FuzzFlags: text comes back byte for byte; what Set says is what is read.
func FuzzFlags(f *testing.F) {
	f.Add("--a b --c=d -v=4", "a", "x y")
	f.Add(`--x "" # '--q`, "q", "")
	f.Fuzz(func(t *testing.T, value, name, set string) {
		flags, err := ParseFlags(value)
		if err != nil {
			return
		}
		if flags.raw != value {
			t.Fatalf("got %q to become %q, want it unchanged", value, flags.raw)
		}
		if got := flags.Argv(); !slices.Equal(got, Argv(value)) && len(got) > 0 {
			t.Fatalf("%q: got words %q, want %q", value, got, Argv(value))
		}
		argv := flags.Argv()
		if flags.Set(name, set) != nil {
			if !slices.Equal(flags.Argv(), argv) {
				t.Fatalf("%q: want no change by a rejected Set, got %q", value, flags.raw)
			}
			return
		}
		if len(flags.usesOf(FlagName(name))) == 0 && isListFlag(FlagName(name)) {
			return // see checkSet
		}
		if got, ok := flags.Lookup(name); !ok || got != set {
			t.Fatalf("%q: want Set(%q, %q) to be read back, got %q, %v in %q", value, name, set, got, ok, flags.raw)
		}
	})
}

// FuzzEnvFile: as FuzzFlags, inside of a file, whose other variables stay.
func FuzzEnvFile(f *testing.F) {
	f.Add("# c\nA=1\nX=\"--a b \\\n --c=d\"\n", "a", "x")
	f.Add("X='--a=\"b c\"'\r\n", "new", "'")
	f.Fuzz(func(t *testing.T, text, name, set string) {
		file, err := ParseEnvFile(text)
		if err != nil {
			return
		}
		if CheckFlag(FlagName(name), set) != nil || isListFlag(FlagName(name)) {
			return
		}
		_ = file.Ambiguous()
		checkSet(t, text, FlagName(name), set)
	})
}

// FuzzConfig: what is read prints as the same document, in both forms.
func FuzzConfig(f *testing.F) {
	f.Add(header + "maxPods: 5\nkubeReserved: {cpu: 100m}\n")
	f.Add(header + "a: ['- x', \"\\u0085\", 1e3, 0x1f, ~, yes]\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseConfig(text)
		if err != nil {
			return
		}
		checkRoundTrip(t, c)
	})
}

// FuzzLoggedConfig: what a log has is a configuration, an error, or nothing.
func FuzzLoggedConfig(f *testing.F) {
	f.Add(loggedConfig)
	f.Add(`{"msg":"Effective KubeletConfiguration","config":"` + strings.ReplaceAll(header, "\n", `\n`) + `maxPods: 5"}`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseLoggedConfig(strings.Split(text, "\n"))
		if err == nil && got != nil && got["kind"] != ConfigKind {
			t.Fatalf("%q: got kind %v, want %s", text, got["kind"], ConfigKind)
		}
	})
}

// FuzzTaint: what is read prints as the same taint, and so does a list.
func FuzzTaint(f *testing.F) {
	f.Add("a=b:NoSchedule")
	f.Add("x.y/z:NoExecute,a=:PreferNoSchedule")
	f.Fuzz(func(t *testing.T, text string) {
		if taint, err := ParseTaint(text); err == nil {
			if again, err := ParseTaint(taint.String()); err != nil || again != taint {
				t.Fatalf("%q: want %v to be read back, got %v, %v", text, taint, again, err)
			}
		}
		taints, err := ParseTaints(text)
		if err != nil {
			return
		}
		if again, err := ParseTaints(FormatTaints(taints)); err != nil || !slices.Equal(again, taints) {
			t.Fatalf("%q: want %v to be read back, got %v, %v", text, taints, again, err)
		}
		removes := func(item string) bool { return IsTaintRemoval(strings.TrimSpace(item)) }
		if got := MergeTaints(text, taints); got != text && !slices.ContainsFunc(strings.Split(text, ","), removes) {
			t.Fatalf("%q merged with itself: got %q, want it unchanged", text, got)
		}
	})
}

// FuzzCPUList: what is read prints as the same set.
func FuzzCPUList(f *testing.F) {
	f.Add("0-3,8\n")
	f.Add("5,4,3")
	f.Fuzz(func(t *testing.T, text string) {
		set, err := ParseCPUSet(strings.TrimSuffix(text, "\n"))
		if err != nil {
			return
		}
		if again, err := ParseCPUSet(set.String()); err != nil || !again.Equals(set) {
			t.Fatalf("%q: want %v to be read back, got %v, %v", text, set, again, err)
		}
	})
}

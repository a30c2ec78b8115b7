package kubelet

import (
	"slices"
	"strings"
	"testing"
)

func TestEnvFileSet(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty file", "", "X=\"--new=1\"\n"},
		{"variable missing", "# c\nY=1\n", "# c\nY=1\nX=\"--new=1\"\n"},
		{"no newline at the end", "Y=1", "Y=1\nX=\"--new=1\"\n"},
		{"no newline at the end, variable there", `X="--a=b"`, `X="--a=b --new=1"`},
		{"empty value", "X=\nY=2\n", "X=\"--new=1\"\nY=2\n"},
		{"empty quotes", "X=\"\"\n", "X=\"--new=1\"\n"},
		{"unquoted", "X=--a=b\n", "X=--a=b --new=1\n"},
		{"unquoted, space behind", "X=--a=b  \n", "X=--a=b --new=1  \n"},
		{"single quotes", "X='--a=b'\n", "X='--a=b --new=1'\n"},
		{"CRLF", "Y=1\r\nX=\"--a=b\"\r\nZ=2\r\n", "Y=1\r\nX=\"--a=b --new=1\"\r\nZ=2\r\n"},
		{"CRLF, missing", "Y=1\r\n", "Y=1\r\nX=\"--new=1\"\r\n"},
		{"the last assignment counts", "X=\"--a=1\"\nX=\"--a=2\"\n", "X=\"--a=1\"\nX=\"--a=2 --new=1\"\n"},
		{"one flag a line", "X=\"--a=b \\\n    --c=d \\\n    --e=f\"\n", "X=\"--a=b \\\n    --c=d \\\n    " +
			"--e=f \\\n    --new=1\"\n"},
		{"a commented assignment is none", "#X=\"--a=b\"\n;X=1\n", "#X=\"--a=b\"\n;X=1\nX=\"--new=1\"\n"},
		{"export is none", "export X=1\n", "export X=1\nX=\"--new=1\"\n"},
		{"space around the name", "  X  =  \"--a=b\"  \n", "  X  =  \"--a=b --new=1\"  \n"},
		{"quoted parts that touch", "X=\"--a=b\"' --c=d'\n", "X=\"--a=b\"' --c=d --new=1'\n"},
		{"a word over two quoted parts", "X=\"--a=\"'b'\n", "X=\"--a=b --new=1\"\n"},
		{"kubeadm's file", "KUBELET_KUBEADM_ARGS=\"--container-runtime-endpoint=unix:///run/containerd/containerd.sock\"\n", "KUBELET_KUBEADM_ARGS=\"--container-runtime-endpoint=unix:///run/containerd/containerd.sock\"\nX=\"--new=1\"\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := mustEnv(t, c.text)
			flags, ok := file.Get("X")
			if !ok {
				flags = mustFlags(t, "")
			}
			must(t, flags.Set("new", "1"))
			must(t, file.Set("X", flags))
			if file.String() != c.want {
				t.Errorf("got  %q\nwant %q", file, c.want)
			}
			if got, _ := file.Get("X"); !slices.Contains(got.Argv(), "--new=1") {
				t.Errorf("got %q, want --new=1 in it", got.Argv())
			}
		})
	}
}

func TestEnvFileSetRefuses(t *testing.T) {
	for _, c := range []struct{ text, variable string }{
		{`Y="never closed`, "X"},
		{`Y=1\`, "X"},
		{"# c\n", "X Y"},
		{"# c\n", "1X"},
		{"# c\n", ""},
	} {
		file := mustEnv(t, c.text)
		if err := file.Set(c.variable, mustFlags(t, "--a=b")); err == nil {
			t.Errorf("%q: Set(%q) gave %q, want an error", c.text, c.variable, file)
		}
		if file.String() != c.text {
			t.Errorf("%q: a rejected Set left %q, want no change", c.text, file)
		}
	}
}

func TestParseEnvFileRefuses(t *testing.T) {
	for _, text := range []string{"X=\xff", "X=a\x00b", "\ufeffX=1", "X=\ufdd0", strings.Repeat("#", maxEnvFile+1)} {
		if _, err := ParseEnvFile(text); err == nil {
			t.Errorf("%.20q was parsed, want an error", text)
		}
		if _, err := ParseFlags(text); err == nil {
			t.Errorf("%.20q was parsed as flags, want an error", text)
		}
	}
	if _, err := ParseEnvFile("X=\ufffd\n"); err != nil {
		t.Errorf("the replacement character: got %v, want no error", err)
	}
}

// Flags of one file can go into another, and a bare value into a file.
func TestEnvFileMovesFlags(t *testing.T) {
	from := mustEnv(t, "A='--x=\"q r\" --y=\\\\'\n")
	flags, _ := from.Get("A")
	for _, to := range []string{"", "B=old\nC=1\n", "B=\"old\"\n"} {
		file := mustEnv(t, to)
		must(t, file.Set("B", flags))
		if got, _ := file.Get("B"); !slices.Equal(got.Argv(), flags.Argv()) {
			t.Errorf("%q: %q, want %q", to, got.Argv(), flags.Argv())
		}
	}
	bare := mustFlags(t, `--x="a b" --d=$HOME --q='"'`)
	file := mustEnv(t, "")
	must(t, file.Set("B", bare))
	if got, _ := file.Get("B"); !slices.Equal(got.Argv(), []string{"--x=a b", "--d=$HOME", `--q="`}) {
		t.Errorf("got argv %q in %q, want the words that were set", got.Argv(), file)
	}
}

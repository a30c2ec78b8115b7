package kubelet

import (
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

func TestEnvFileSet(t *testing.T) {
	for _, c := range table.YAML[[]struct{ Name, Text, Want string }](t, `
- {name: empty file, want: "X=\"--new=1\"\n"}
- name: variable missing
  text: |
    # c
    Y=1
  want: |
    # c
    Y=1
    X="--new=1"
- name: no newline at the end
  text: Y=1
  want: |
    Y=1
    X="--new=1"
- {name: 'no newline at the end, variable there', text: X="--a=b", want: X="--a=b --new=1"}
- name: empty value
  text: |
    X=
    Y=2
  want: |
    X="--new=1"
    Y=2
- {name: empty quotes, text: "X=\"\"\n", want: "X=\"--new=1\"\n"}
- {name: unquoted, text: "X=--a=b\n", want: "X=--a=b --new=1\n"}
- {name: 'unquoted, space behind', text: "X=--a=b  \n", want: "X=--a=b --new=1  \n"}
- {name: single quotes, text: "X='--a=b'\n", want: "X='--a=b --new=1'\n"}
- name: CRLF
  text: "Y=1\r\nX=\"--a=b\"\r\nZ=2\r\n"
  want: "Y=1\r\nX=\"--a=b --new=1\"\r\nZ=2\r\n"
- name: CRLF, missing
  text: "Y=1\r\n"
  want: "Y=1\r\nX=\"--new=1\"\r\n"
- name: the last assignment counts
  text: |
    X="--a=1"
    X="--a=2"
  want: |
    X="--a=1"
    X="--a=2 --new=1"
- name: one flag a line
  text: |
    X="--a=b \
        --c=d \
        --e=f"
  want: |
    X="--a=b \
        --c=d \
        --e=f \
        --new=1"
- name: a commented assignment is none
  text: |
    #X="--a=b"
    ;X=1
  want: |
    #X="--a=b"
    ;X=1
    X="--new=1"
- name: export is none
  text: "export X=1\n"
  want: |
    export X=1
    X="--new=1"
- {name: space around the name, text: "  X  =  \"--a=b\"  \n", want: "  X  =  \"--a=b --new=1\"  \n"}
- {name: quoted parts that touch, text: "X=\"--a=b\"' --c=d'\n", want: "X=\"--a=b\"' --c=d --new=1'\n"}
- {name: a word over two quoted parts, text: "X=\"--a=\"'b'\n", want: "X=\"--a=b --new=1\"\n"}
- name: kubeadm's file
  text: "KUBELET_KUBEADM_ARGS=\"--container-runtime-endpoint=unix:///run/containerd/containerd.sock\"\n"
  want: |
    KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///run/containerd/containerd.sock"
    X="--new=1"
`) {
		t.Run(c.Name, func(t *testing.T) {
			file := mustEnv(t, c.Text)
			flags, ok := file.Get("X")
			if !ok {
				flags = mustFlags(t, "")
			}
			must(t, flags.Set("new", "1"))
			must(t, file.Set("X", flags))
			if file.String() != c.Want {
				t.Errorf("got  %q\nwant %q", file, c.Want)
			}
			if got, _ := file.Get("X"); !slices.Contains(got.Argv(), "--new=1") {
				t.Errorf("got %q, want --new=1 in it", got.Argv())
			}
		})
	}
}

func TestEnvFileSetRefuses(t *testing.T) {
	for _, c := range table.YAML[[]struct{ Text, Variable string }](t, `
- {text: Y="never closed, variable: X}
- {text: Y=1\, variable: X}
- {text: "# c\n", variable: X Y}
- {text: "# c\n", variable: 1X}
- {text: "# c\n"}
`) {
		file := mustEnv(t, c.Text)
		if err := file.Set(c.Variable, mustFlags(t, "--a=b")); err == nil {
			t.Errorf("%q: Set(%q) gave %q, want an error", c.Text, c.Variable, file)
		}
		if file.String() != c.Text {
			t.Errorf("%q: a rejected Set left %q, want no change", c.Text, file)
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

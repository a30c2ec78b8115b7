package lang

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/testing/table"
)

// oddLayouts are texts that need each rule of the formatter, and some that do not parse.
var oddLayouts = []string{
	"",
	"\n",
	"  \n\n a=1",
	"a=1\nbbb=2 # x\nc   =   3 // y\n\nd=4",
	"a=1 /* x */\nb=2\n",
	"# c\n   # d\n",
	"a = 1   ",
	"b \"l\"   \"m\"{\na=-1\nb=1-1\nc=a  -b\nd=(-a)\ne=!a\nf=[-1,- 2]\ng=a?-b:- c\nh=a==-1\n}",
	"a={x=1,y=2}\nb={}\nc=[ ]\nd=[1,2 ,3]\ne=f( 1 , 2... )\nf=x::y(1)\n",
	"a=[for x in[1]:x if x>0]\nb={for k,v in m:k=>v...}\nc=in[0]\n",
	"a=x [0]\nb=x.y . z\nc=x[*].y\nd=x.*.y\ne=f(x)[0]\nf=[1][0]\ng=1[0]",
	"a=\"x${ y }z%{if a}b%{ endif }\"\nb=\"${{a=1}}\"\nc=\"${a}${b}\"\n",
	"a=<<E\n x ${ y } \nE\nbb=<<-E\n   x\n  E\n",
	"a=[\n1,\n2\n]\nlong_name=3\n",
	"a=f(\n[\n1\n]\n)\nb=({\nx=1})\n",
	"a=b(c({\nx=1\n}))\n",
	"a {\nb {\n}}\nc=1\n",
	"}\n}\na=1\n",
	"a=1 # ä\nbb=\"é😀\" # x\nccc=\"e\u0301\" # y\n",
	"a=x&&y||!z\nb=a%b\nc=a<=b\n",
	"a /* in\nside */ = 1 # x\nbb = 2 # y\n",
	"a = 1\t\t# x\n\tb = 2\n",
	"x{a=1}\ny { a = 1 }\nz {\n  a = 1 }\n",
	"\ufeffa=1\n",
	"a=\"\xff\"\n",
	"a=`x`;b='y'\n",
	"a=1\r\nbb=2\r\n",
	"a=\"${\n b }\" # x\n",
	"a = b ? c : d\n",
	"a=\"%{ for x in y ~}\n\"",
	"a = [for k in -x : -k]\n",
}

// sitesIn returns the native files below some folders.
func sitesIn(t testing.TB, folders ...string) (out [][]byte) {
	for _, dir := range folders {
		err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(p, ".hcl") {
				return err
			}
			b, err := os.ReadFile(p)
			out = append(out, b)
			return err
		})
		must(t, err)
	}
	return out
}

func TestFormatSpaces(t *testing.T) {
	for src, want := range table.YAML[map[string]string](t, `
'': ''
"a=1\nbbb=2 # x\nc = 3 // y\n": |
  a   = 1
  bbb = 2 # x
  c   = 3 // y
"stage   \"label\"   \"x\" {\nlabels={}\n}": |-
  stage "label" "x" {
    labels = {}
  }
"# c\n   # d\n\n\n a = -1\n": |
  # c
  # d


  a = -1
"a=<<E\n x ${ y } \nE\n": "a = <<E\n x ${y} \nE\n"
"a=1\r\nbbb=2\r\n": "a   = 1\r\nbbb = 2\r\n"
"a = [\n1,\n2\n]\n": |
  a = [
    1,
    2
  ]
"a = {\nb=1\n}\n": |
  a = {
    b = 1
  }
"cluster {\nservers=[\"a\"]\n  ca_file    = \"b\" # why\n}\n": |
  cluster {
    servers = ["a"]
    ca_file = "b" # why
  }
`) {
		got, diags := FormatFile("x.hcl", []byte(src))
		if string(got) != want || diags.HasErrors() {
			t.Errorf("%q: got %q, %v, want %q", src, got, diags, want)
		}
	}
}

func TestFormatRefuses(t *testing.T) {
	for name, src := range map[string]string{
		"a syntax error":           "stage   {\n",
		"a byte order mark":        "\ufeffa=1\n",
		"bytes that are not UTF-8": "a=\"\xff\"\n",
		"many signs":               "a=" + strings.Repeat("-", 30_000),
		"too many bytes":           "a=1 #" + strings.Repeat("x", MaxBytes) + "\n",
		"too many tokens":          "a=[" + strings.Repeat("1,", maxTokens) + "]\n",
	} {
		got, diags := FormatFile("x.hcl", []byte(src))
		if !diags.HasErrors() || string(got) != src {
			t.Errorf("%s: got %d bytes with %v, want the file unchanged and an error", name, len(got), diags)
		}
	}
}

// FuzzFormat checks that only spaces change and that a second run changes nothing.
func FuzzFormat(f *testing.F) {
	for _, text := range slices.Concat(slices.Collect(maps.Values(hostileNative(20))), oddLayouts) {
		f.Add([]byte(text))
	}

	for _, text := range sitesIn(f, "../../../examples", "testdata") {
		f.Add(text)
		f.Add(bytes.ReplaceAll(text, []byte("  "), []byte(" ")))
		f.Add(bytes.ReplaceAll(text, []byte(" = "), []byte("=")))
	}

	f.Add([]byte("e = f(1 . 2...)\n"))
	f.Add([]byte(overrideBase))
	f.Add([]byte("a = <<-EOT\n   x ${1}\nEOT\n# c\nb{}\n"))

	f.Fuzz(func(t *testing.T, src []byte) {
		once := Format(src)

		if got, want := tokensOf(once), tokensOf(src); !slices.Equal(got, want) {
			t.Fatalf("%q: tokens changed: %s", src, cmp.Diff(want, got))
		}

		if twice := Format(once); !bytes.Equal(once, twice) {
			t.Fatalf("%q: a second run changed %q to %q, want no change", src, once, twice)
		}
	})
}

// tokensOf returns the type and text of each token.
func tokensOf(src []byte) (out []string) {
	tokens, _ := hclsyntax.LexConfig(src, "", hcl.InitialPos)
	for _, t := range tokens {
		out = append(out, t.Type.GoString()+" "+string(t.Bytes))
	}

	return out
}

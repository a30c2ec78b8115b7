package site

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// oddLayouts are texts whose layout needs each rule.
var oddLayouts = []string{
	"", "\n", "  \n\n a=1", "a=1\nbbb=2 # x\nc   =   3 // y\n\nd=4", "a=1 /* x */\nb=2\n", "# c\n   # d\n", "a = 1   ",
	"b \"l\"   \"m\"{\na=-1\nb=1-1\nc=a  -b\nd=(-a)\ne=!a\nf=[-1,- 2]\ng=a?-b:- c\nh=a==-1\n}",
	"a={x=1,y=2}\nb={}\nc=[ ]\nd=[1,2 ,3]\ne=f( 1 , 2... )\nf=x::y(1)\n", "a=[for x in[1]:x if x>0]\nb={for k,v in m:k=>v...}\nc=in[0]\n",
	"a=x [0]\nb=x.y . z\nc=x[*].y\nd=x.*.y\ne=f(x)[0]\nf=[1][0]\ng=1[0]", "a=\"x${ y }z%{if a}b%{ endif }\"\nb=\"${{a=1}}\"\nc=\"${a}${b}\"\n",
	"a=<<E\n x ${ y } \nE\nbb=<<-E\n   x\n  E\n", "a=[\n1,\n2\n]\nlong_name=3\n", "a=f(\n[\n1\n]\n)\nb=({\nx=1})\n", "a=b(c({\nx=1\n}))\n",
	"a {\nb {\n}}\nc=1\n", "}\n}\na=1\n", "a=1 # ä\nbb=\"é😀\" # x\nccc=\"e\u0301\" # y\n", "a=x&&y||!z\nb=a%b\nc=a<=b\n",
	"a /* in\nside */ = 1 # x\nbb = 2 # y\n", "a = 1\t\t# x\n\tb = 2\n", "x{a=1}\ny { a = 1 }\nz {\n  a = 1 }\n", "\ufeffa=1\n", "a=\"\xff\"\n", "a=`x`;b='y'\n",
	"a=1\r\nbb=2\r\n", "a=\"${\n b }\" # x\n", "a = b ? c : d\n", "a=\"%{ for x in y ~}\n\"", "a = [for k in -x : -k]\n",
}

// FuzzLayout compares the layout with hclwrite's. Texts with a token that goes over lines may differ in what stands beside
// it, and nothing that parses may change but in its spaces.
func FuzzLayout(f *testing.F) {
	for _, s := range oddLayouts {
		f.Add([]byte(s))
	}
	for _, s := range sitesIn(f, "../../examples", "testdata") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(src) > 1<<16 {
			return
		}
		got := layout(src)
		if overLines(src) {
			if !bytes.Equal(squeeze(got), squeeze(src)) {
				t.Fatalf("%q became %q", src, got)
			}
			return
		}
		if want := hclwrite.Format(src); !bytes.Equal(got, want) {
			t.Fatalf("%q:\n%s\nwant\n%s", src, got, want)
		}
	})
}

func squeeze(b []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte(" "), nil), []byte("\t"), nil)
}

// overLines says whether a comment or something else in the middle of a line goes on in the next.
func overLines(src []byte) bool {
	tokens, _ := hclsyntax.LexConfig(src, "", hcl.InitialPos)
	for _, t := range tokens {
		if i := bytes.IndexByte(t.Bytes, '\n'); i >= 0 && i < len(t.Bytes)-1 {
			return true
		}
	}
	return false
}

// sitesIn are the native files below some folders.
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
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestLayoutIsThatOfHCLWrite(t *testing.T) {
	texts := sitesIn(t, "../../examples")
	if len(texts) < 5 {
		t.Fatalf("%d examples", len(texts))
	}
	for _, s := range oddLayouts {
		texts = append(texts, []byte(s))
	}
	for _, src := range texts {
		// Also when nothing stands where it should.
		for _, text := range [][]byte{src, bytes.ReplaceAll(src, []byte("  "), []byte(" ")), bytes.ReplaceAll(src, []byte(" = "), []byte("="))} {
			got, want := layout(text), hclwrite.Format(text)
			if !bytes.Equal(got, want) {
				t.Errorf("%s\nis laid out as\n%s\nand hclwrite has\n%s", text, got, want)
			}
			if again := layout(got); !bytes.Equal(again, hclwrite.Format(want)) {
				t.Errorf("%s\nis laid out again as\n%s", got, again)
			}
		}
	}
}

func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a", "${x}", "%{x}", "$${", "$", "%", "\"\\\n\r\t", "\x00\x1f\u0085\u2028", "😀\U000e0001", "é", "\xff", "a$"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := Quote(s), string(hclwrite.TokensForValue(cty.StringVal(s)).Bytes()); got != want && cty.NormalizeString(s) == s {
			t.Fatalf("%q: %s, want %s", s, got, want)
		}
	})
}

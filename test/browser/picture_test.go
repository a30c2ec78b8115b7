package browser

import (
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

const (
	// takePicture is set by make picture: TestPicture then writes the picture of README.md and its text.
	takePicture = "PRELET_PICTURE"

	picture     = "../../docs/images/report.png"
	pictureText = "testdata/picture.txt"

	pictureWidth = 1200
)

// promises are the parts of the picture that README.md can promise, each with the elements that show it.
var promises = map[string]string{
	"the machine with its NUMA nodes": "#machine .numa h3",
	"GPUs":                            "#machine .device b",
	"network links":                   "#machine .device .cell",
	"a label":                         "#labels details[open] summary code",
	"its expression":                  "#labels details[open] pre",
	"the fact behind it":              "#labels details[open] .steps li",
}

// shown returns the texts of the elements of a selector that lie in the picture as a whole.
const shown = `(selector) => [...document.querySelectorAll(selector)].filter((e) => {
  const box = e.getBoundingClientRect(), clip = pictureClip();
  return box.width > 0 && box.top >= clip.top && box.bottom <= clip.bottom && box.left >= 0 && box.right <= innerWidth;
}).map((e) => e.innerText)`

// pictureClip is the part of the page that is photographed: from the machine to the end of the labels.
const pictureClip = `window.pictureClip = () => ({
  top: document.getElementById("machine").getBoundingClientRect().top,
  bottom: document.getElementById("labels").getBoundingClientRect().bottom,
}); document.querySelector("#labels details").open = true`

// TestPicture checks that the page of which README.md has a picture shows each part that the picture's alternative text
// promises, and that the picture was taken of a page with the same text. make picture takes it again.
func TestPicture(t *testing.T) {
	readme := string(readFile(t, "../../README.md"))
	tb := open(t, startBrowser(t), writeReadmePage(t, readme),
		emulation.SetDeviceMetricsOverride(pictureWidth, 1000, 1, false))
	tb.do(chromedp.Evaluate(pictureClip, nil))

	alt := regexp.MustCompile(`(?s)!\[([^\]]*)\]\(docs/images/report\.png\)`).FindStringSubmatch(readme)
	if alt == nil {
		t.Fatal("README.md: got no picture docs/images/report.png, want it")
	}
	_, list, _ := strings.Cut(strings.Join(strings.Fields(alt[1]), " "), ": ")
	for promise := range strings.SplitSeq(list, ", ") {
		selector, isKnown := promises[promise]
		if !isKnown {
			t.Errorf("alternative text of the picture: got %q, want one of the keys of promises", promise)
			continue
		}
		if got := evalPage[[]string](tb, "("+shown+")('"+selector+"')"); len(got) == 0 {
			t.Errorf("%q of the alternative text: got no such element in the picture, want %s", promise, selector)
		}
	}

	text := evalPage[string](tb, `document.getElementById("machine").innerText + "\n" +
		document.getElementById("labels").innerText`) + "\n"
	if os.Getenv(takePicture) != "" {
		writeFile(t, pictureText, []byte(text))
		writeFile(t, picture, takeClip(tb))
	}
	if want := string(readFile(t, pictureText)); text != want {
		t.Errorf("text of the photographed page: got\n%s\nwant\n%s\nTry: make picture", text, want)
	}
	tb.checkSilent()
}

// writeReadmePage writes the page of the site of README.md on a recorded machine with eight GPUs.
func writeReadmePage(t *testing.T, readme string) string {
	site := regexp.MustCompile("(?s)```hcl\n(.*?)```").FindStringSubmatch(readme)
	if site == nil {
		t.Fatal("README.md: got no site, want one")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "site.hcl")
	writeFile(t, config, []byte(site[1]))
	file := filepath.Join(dir, "readme.html")
	c := exec.Command("../../bin/prelet", "report", "--html", file, "--config", config, "--objects",
		"../../examples/objects", "--hardware", "../../bin/machines/dgx-h100", "--root", t.TempDir())
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("prelet report: got %v, want a page\n%s", err, out)
	}

	return file
}

// takeClip takes a picture of pictureClip, with a margin above it.
func takeClip(tb *tab) (png []byte) {
	const margin = 16
	tb.do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		top := math.Floor(evalPage[float64](tb, "pictureClip().top + scrollY")) - margin
		height := math.Ceil(evalPage[float64](tb, "pictureClip().bottom + scrollY")) - top
		png, err = page.CaptureScreenshot().WithCaptureBeyondViewport(true).
			WithClip(&page.Viewport{Y: top, Width: pictureWidth, Height: height, Scale: 1}).Do(ctx)

		return err
	}))

	return png
}

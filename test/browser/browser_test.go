package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const (
	// wanted is set by make e2e-browser: without it these tests are skipped, with it they need Chromium.
	wanted = "PRELET_BROWSER"

	// screenshots names a folder for a picture of each page.
	screenshots = "PRELET_SCREENSHOTS"

	timeout = 5 * time.Minute
)

// tab is a page in the browser, with what went wrong in it.
type tab struct {
	*testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string
}

// startBrowser starts Chromium with a profile of its own, and returns the context of its tabs.
func startBrowser(t *testing.T) context.Context {
	if os.Getenv(wanted) == "" {
		t.Skip("make e2e-browser runs this test")
	}
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("chromium: got %v, want the program: apt-get install chromium", err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	t.Cleanup(cancel)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.NoSandbox, // CI runs as root
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
	)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits for its end, so that the profile can be removed
		cancel()
	})
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("start of chromium: got %v, want no error", err)
	}

	return ctx
}

// open opens a file in a new tab.
func open(t *testing.T, browser context.Context, file string, before ...chromedp.Action) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	tb := &tab{T: t, ctx: ctx}
	url := "file://" + file
	chromedp.ListenTarget(ctx, func(event any) { tb.note(event, url) })
	tb.do(network.Enable(), log.Enable(), runtime.Enable())
	tb.do(before...)
	tb.do(chromedp.Navigate(url))

	return tb
}

// note keeps what a page must not do: log, throw, ask for a dialog, or request anything.
func (tb *tab) note(event any, url string) {
	problem := ""
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		problem = "console." + string(e.Type)
	case *runtime.EventExceptionThrown:
		problem = "exception: " + e.ExceptionDetails.Error()
	case *log.EventEntryAdded:
		problem = "log: " + e.Entry.Text
	case *page.EventJavascriptDialogOpening:
		problem = "dialog: " + e.Message
	case *network.EventRequestWillBeSent:
		if e.Request.URL != url && !strings.HasPrefix(e.Request.URL, "data:,") {
			problem = "request of " + e.Request.URL
		}
	}
	if problem == "" {
		return
	}

	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.problems = append(tb.problems, problem)
}

func (tb *tab) do(actions ...chromedp.Action) {
	tb.Helper()
	if err := chromedp.Run(tb.ctx, actions...); err != nil {
		tb.Fatalf("the page: got %v, want no error", err)
	}
}

// checkSilent fails if the page did something that a page must not do.
func (tb *tab) checkSilent() {
	tb.Helper()
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if len(tb.problems) > 0 {
		tb.Errorf("the page: got %q, want no log, no error and no request", tb.problems)
	}
}

// evalPage returns the value of an expression.
func evalPage[T any](tb *tab, expression string) (out T) {
	tb.Helper()
	tb.do(chromedp.Evaluate(expression, &out))

	return out
}

// visible counts the elements of a selector that are shown.
func visible(tb *tab, selector string) int {
	tb.Helper()

	return evalPage[int](tb, fmt.Sprintf("[...document.querySelectorAll(%q)].filter(e => e.offsetParent !== null).length",
		selector))
}

// lowContrast lists the texts with a contrast below 4.5, which is the level AA of WCAG. It opens all details first.
const lowContrast = `(() => {
  for (const d of document.querySelectorAll("details")) d.open = true;
  const parse = (c) => c.match(/[\d.]+/g).map(Number);
  const light = (c) => {
    const [r, g, b] = c.map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const bad = new Set();
  for (const e of document.querySelectorAll("body *")) {
    const hasText = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!hasText || e.offsetParent === null || e.closest("option")) continue;
    const a = light(parse(getComputedStyle(e).color).slice(0, 3)), b = light(back(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.add(e.tagName + "." + e.className + " " + ratio.toFixed(1));
  }
  return [...bad];
})()`

// Each page at two widths and in two schemes: it fits, is readable, and does nothing else.
func TestPages(t *testing.T) {
	browser := startBrowser(t)
	pages := map[string]string{"boot": writeBoot(t), "fleet": writeFleet(t), "machine": writeMachine(t)}
	for name, file := range pages {
		for _, width := range []int64{1280, 360} {
			for _, scheme := range []string{"light", "dark"} {
				t.Run(fmt.Sprintf("%s-%d-%s", name, width, scheme), func(t *testing.T) {
					media := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
					tb := open(t, browser, file,
						emulation.SetDeviceMetricsOverride(width, 800, 1, width < 500),
						emulation.SetEmulatedMedia().WithFeatures(media))
					tb.takeScreenshot(fmt.Sprintf("%s-%d-%s", name, width, scheme))
					if got := evalPage[int64](tb, "document.documentElement.scrollWidth"); got > width {
						t.Errorf("width of the page: got %d px, want at most %d", got, width)
					}
					if got := evalPage[[]string](tb, lowContrast); len(got) > 0 {
						t.Errorf("texts with low contrast: got %q, want at least 4.5", got)
					}
					if got := evalPage[int64](tb, "document.documentElement.scrollWidth"); got > width {
						t.Errorf("width of the page with all details: got %d px, want at most %d", got, width)
					}
					tb.takeScreenshot(fmt.Sprintf("%s-%d-%s-open", name, width, scheme))
					tb.checkSilent()
				})
			}
		}
	}
}

// TestKinds checks that each change of a group shows its kind on a phone: a label and a taint may have the same name.
func TestKinds(t *testing.T) {
	tb := open(t, startBrowser(t), writeFleet(t), emulation.SetDeviceMetricsOverride(360, 800, 1, true))
	got := evalPage[[]string](tb, `[...document.querySelectorAll(".group td.wide")].filter((e) =>
		e.getBoundingClientRect().width > 0).map((e) => e.innerText)`)
	if want := []string{"label", "file", "label", "taint"}; !slices.Equal(got, want) {
		t.Errorf("kinds of the changes: got %q, want %q", got, want)
	}
}

// takeScreenshot writes a picture of the page, where a folder for it is given.
func (tb *tab) takeScreenshot(name string) {
	folder := os.Getenv(screenshots)
	if folder == "" {
		return
	}
	var picture []byte
	tb.do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		width := evalPage[float64](tb, "innerWidth")
		height := evalPage[float64](tb, "Math.min(3600, document.documentElement.scrollHeight)")
		picture, err = page.CaptureScreenshot().WithCaptureBeyondViewport(true).
			WithClip(&page.Viewport{Width: width, Height: height, Scale: 1}).Do(ctx)
		return err
	}))
	writeFile(tb.T, filepath.Join(folder, name+".png"), picture)
}

func TestFilters(t *testing.T) {
	tb := open(t, startBrowser(t), writeFleet(t))
	const all = changedMachines + movedMachines + sameMachines + failedMachines
	for _, step := range []struct {
		name                       string
		do                         chromedp.Action
		machines, groups, of, rows int // shown: machines, groups, columns of groups, rows of effects
	}{
		{"nothing", chromedp.Tasks{}, all, 4, 4, 4},
		{"a machine", chromedp.SendKeys("#text", "node0701"), 1, 1, 1, 2},
		{"nothing again", setText(""), all, 4, 4, 4},
		{"a label", setText("Accelerator"), changedMachines, 1, 1, 2},
		{"an unknown text", setText("no such text"), 0, 0, 0, 0},
		{"a kind", chromedp.Tasks{setText(""), choose("taint")}, movedMachines, 1, 1, 1},
		{"all kinds", choose(""), all, 4, 4, 4},
		{"a state less", chromedp.Click("input[value=changed]"), sameMachines + failedMachines, 2, 2, 0},
	} {
		tb.do(step.do)
		got := fmt.Sprint(visible(tb, "[data-machine]"), visible(tb, "[data-group]"), visible(tb, "thead [data-column]"),
			visible(tb, "[data-effect]"))
		if want := fmt.Sprint(step.machines, step.groups, step.of, step.rows); got != want {
			t.Errorf("filter by %s: got %s, want %s (machines, groups, columns, effects)", step.name, got, want)
		}
		count := fmt.Sprintf("%d of %d machines", step.machines, all)
		if text := evalPage[string](tb, "document.getElementById('shown').textContent"); !strings.HasPrefix(text, count) {
			t.Errorf("filter by %s: got %q, want %q", step.name, text, count)
		}
	}
	tb.checkSilent()
}

func setText(text string) chromedp.Action {
	return setValue("text", text)
}

func choose(kind string) chromedp.Action {
	return setValue("kind", kind)
}

func setValue(id, text string) chromedp.Action {
	return chromedp.Evaluate(fmt.Sprintf("{ const e = document.getElementById(%q); e.value = %q; "+
		"e.dispatchEvent(new Event('input', {bubbles: true})) }", id, text), nil)
}

// Without JavaScript a page shows everything but the filters.
func TestWithoutJavaScript(t *testing.T) {
	browser := startBrowser(t)
	tb := open(t, browser, writeFleet(t), emulation.SetScriptExecutionDisabled(true))
	got := []int{visible(tb, "[data-machine]"), visible(tb, "[data-group]"), visible(tb, "#filters")}
	if want := "[1000 4 0]"; fmt.Sprint(got) != want {
		t.Errorf("fleet without JavaScript: got %v, want %s (machines, groups, filters)", got, want)
	}

	tb = open(t, browser, writeBoot(t), emulation.SetScriptExecutionDisabled(true))
	tb.do(chromedp.Click("#labels summary"))
	if got := visible(tb, "#labels .steps li"); got == 0 {
		t.Error("chain of the first label after a click without JavaScript: got no steps, want its steps")
	}
	tb.checkSilent()
}

// A page can be read without a mouse.
func TestKeyboard(t *testing.T) {
	tb := open(t, startBrowser(t), writeBoot(t))
	tb.do(chromedp.KeyEvent(kb.Tab))
	if got := evalPage[string](tb, "document.activeElement.getAttribute('href')"); got != "#main" {
		t.Errorf("first stop of Tab: got %q, want the link that skips to #main", got)
	}
	tb.do(chromedp.Focus("#labels summary"), chromedp.KeyEvent(kb.Enter))
	if !evalPage[bool](tb, "document.querySelector('#labels details').open") {
		t.Error("Enter on a label: got closed details, want its chain")
	}
	if got := evalPage[string](tb, "getComputedStyle(document.activeElement).outlineStyle"); got != "solid" {
		t.Errorf("outline of the focus: got %q, want solid", got)
	}
}

// Texts of a recording are shown as they are, and have no effect.
func TestHostileTexts(t *testing.T) {
	tb := open(t, startBrowser(t), writeFleet(t))
	if got := evalPage[string](tb, "typeof hacked"); got != "undefined" {
		t.Errorf("variable that the texts of a recording set: got %s, want undefined", got)
	}
	text := evalPage[string](tb, "document.getElementById('machines').textContent")
	if !strings.Contains(text, `"><script>hacked=1</script>`) || !strings.Contains(text, `\u202e`) {
		t.Error("machine with a hostile name: got no such text, want it with its tags and \\u202e")
	}
	if strings.Contains(text, "\u202e") {
		t.Error("machine with a hostile name: got U+202E, want an escape")
	}
	tb.checkSilent()
}

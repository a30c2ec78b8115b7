package main

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/prelet/prelet/bench/measure"
)

// figure is one image of a growth.
type figure struct {
	file, growth, title, x, y string
	value                     func(measure.Sample) float64
	logX, logY                bool
}

func figures() []figure {
	seconds := func(s measure.Sample) float64 { return s.WallMS / 1000 }
	requests := func(s measure.Sample) float64 { return s.Requests }

	return []figure{
		{"growth-threads.svg", "threads", "First run on a machine with 1 to 224 CPU threads",
			"CPU threads", "wall time, ms", wallMS, true, false},
		{"growth-threads-cpu.svg", "threads", "CPU time of that run",
			"CPU threads", "CPU time, ms", cpuMS, true, false},
		{"growth-devices.svg", "devices", "First run on a machine with 0 to 64 GPUs",
			"GPUs", "wall time, ms", wallMS, false, false},
		{"growth-stages.svg", "stages", "A site with 1 to 500 stages", "stages", "wall time, ms", wallMS, true, false},
		{"growth-recordings.svg", "recordings", "A plan of 10 to 10,000 recordings",
			"recordings", "wall time, s", seconds, true, true},
		{"growth-recordings-memory.svg", "recordings", "Memory of that plan",
			"recordings", "peak memory, MiB", memoryMiB, true, false},
		{"growth-boots.svg", "boots", "10 to 1,000 boots in the same moment",
			"boots", "until the last is done, s", seconds, true, true},
		{"growth-boots-requests.svg", "boots", "Requests of these boots",
			"boots", "requests of a boot", requests, true, false},
	}
}

// draw writes all images.
func (r result) draw(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	comparisons := map[string]*plot.Plot{
		"peers-time.svg": r.compare("Wall and CPU time, median and range", "ms", map[string]func(row) spread{
			"wall": func(p row) spread { return spreadOf(p.Samples, wallMS) },
			"CPU":  func(p row) spread { return spreadOf(p.Samples, cpuMS) },
		}, []string{"wall", "CPU"}),
		"peers-size.svg": r.compare("Peak memory in MiB, and size on disk in MB", "", map[string]func(row) spread{
			"memory":  func(p row) spread { return spreadOf(p.Samples, memoryMiB) },
			"on disk": func(p row) spread { return spread{p.Disk / 1e6, p.Disk / 1e6, p.Disk / 1e6} },
		}, []string{"memory", "on disk"}),
	}
	for file, p := range comparisons {
		if err := save(p, 18*vg.Centimeter, 9*vg.Centimeter, filepath.Join(dir, file)); err != nil {
			return err
		}
	}

	for _, f := range figures() {
		for _, g := range r.Growth {
			if g.Name != f.growth {
				continue
			}
			p, err := f.plot(g)
			if err == nil {
				err = save(p, 14*vg.Centimeter, 8*vg.Centimeter, filepath.Join(dir, f.file))
			}
			if err != nil {
				return fmt.Errorf("%s: %w", f.file, err)
			}
		}
	}

	return nil
}

// Colors of the plots. The grid's is one of the theme; those of the series are readable on light and on dark.
var (
	grid   = color.RGBA{R: 0xdd, G: 0xdd, B: 0xdd, A: 255}
	colors = []color.Color{
		color.RGBA{R: 0x2f, G: 0x7e, B: 0xd8, A: 255},
		color.RGBA{R: 0xd9, G: 0x73, B: 0x0d, A: 255},
		color.RGBA{R: 0x2a, G: 0x9d, B: 0x63, A: 255},
		color.RGBA{R: 0xb0, G: 0x55, B: 0xa8, A: 255},
	}
)

func newPlot(title, x, y string) *plot.Plot {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding, p.Y.Padding, p.Legend.Padding = vg.Points(6), vg.Points(12), vg.Points(3)
	for _, style := range []*draw.TextStyle{&p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font.Size = vg.Points(9)
	}
	p.Title.TextStyle.Font.Size, p.X.Label.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size = 12, 10, 10
	lines := plotter.NewGrid()
	lines.Horizontal.Color, lines.Vertical.Color = grid, grid
	p.Add(lines)

	return p
}

// compare draws a line for each program, the first at the top, on a logarithmic axis.
func (r result) compare(title, unit string, values map[string]func(row) spread, order []string) *plot.Plot {
	p := newPlot(title, unit, "")
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, steps{}
	var names []plot.Tick
	for i, row := range r.Peers {
		names = append(names, plot.Tick{Value: float64(len(r.Peers) - 1 - i), Label: row.Name + "   "})
	}
	p.Y.Tick.Marker = plot.ConstantTicks(names)
	p.Y.Min, p.Y.Max = -0.6, float64(len(r.Peers))-0.4

	for k, name := range order {
		points := bars{isHorizontal: true}
		for i, row := range r.Peers {
			points.add(float64(len(r.Peers)-1-i)+0.12-0.24*float64(k), values[name](row))
		}
		points.addTo(p, name, colors[k], false)
	}
	p.X.Max *= 1.2

	return p
}

// plot draws the series of a growth.
func (f figure) plot(g growth) (*plot.Plot, error) {
	p := newPlot(f.title, f.x, f.y)
	var ticks []plot.Tick
	for i, s := range g.Series {
		var points bars
		for _, at := range s.Points {
			points.add(float64(at.X), spreadOf(at.Samples, f.value))
			if i == 0 {
				ticks = append(ticks, plot.Tick{Value: float64(at.X), Label: fmt.Sprint(at.X)})
			}
		}
		if len(points.all) == 0 {
			return nil, fmt.Errorf("%s has no points", s.Name)
		}
		points.addTo(p, s.Name, colors[i%len(colors)], true)
	}
	if f.logX {
		p.X.Scale = plot.LogScale{}
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	if f.logY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, steps{}
	} else {
		p.Y.Min, p.Y.Tick.Marker = 0, evenly{}
		p.Y.Max *= 1.25 // room for the legend
	}

	return p, nil
}

// bars are medians with their ranges, along one axis.
type bars struct {
	all          []bar
	isHorizontal bool
}

type bar struct {
	at float64
	spread
}

func (b *bars) add(at float64, s spread) { b.all = append(b.all, bar{at, s}) }

// Len, XY, XError and YError are what plotters ask.
func (b *bars) Len() int { return len(b.all) }

func (b *bars) XY(i int) (x, y float64) {
	if b.isHorizontal {
		return b.all[i].median, b.all[i].at
	}

	return b.all[i].at, b.all[i].median
}

func (b *bars) XError(i int) (low, high float64) {
	return b.all[i].median - b.all[i].low, b.all[i].high - b.all[i].median
}

func (b *bars) YError(i int) (low, high float64) { return b.XError(i) }

// addTo draws points, ranges, and a line between the points if they are one series.
func (b *bars) addTo(p *plot.Plot, name string, c color.Color, isLine bool) {
	scatter := &plotter.Scatter{XYs: make(plotter.XYs, b.Len())}
	for i := range scatter.XYs {
		scatter.XYs[i].X, scatter.XYs[i].Y = b.XY(i)
	}
	scatter.GlyphStyle = draw.GlyphStyle{Color: c, Radius: vg.Points(2.5), Shape: draw.CircleGlyph{}}

	style := draw.LineStyle{Color: c, Width: vg.Points(1)}
	if b.isHorizontal {
		if e, err := plotter.NewXErrorBars(b); err == nil { // it fails for no points and for NaN
			e.LineStyle, e.CapWidth = style, vg.Points(4)
			p.Add(e)
		}
	} else if e, err := plotter.NewYErrorBars(b); err == nil {
		e.LineStyle, e.CapWidth = style, vg.Points(4)
		p.Add(e)
	}
	if isLine {
		p.Add(&plotter.Line{XYs: scatter.XYs, LineStyle: draw.LineStyle{Color: c, Width: vg.Points(1.5)}})
	}
	p.Add(scatter)
	p.Legend.Top, p.Legend.Left = true, isLine
	p.Legend.Add(name, scatter)
}

// steps are the ticks 1, 2 and 5 of each power of ten.
type steps struct{}

// Ticks implements plot.Ticker.
func (steps) Ticks(low, high float64) []plot.Tick {
	var all []plot.Tick
	for power := math.Floor(math.Log10(low)); power <= math.Log10(high); power++ {
		for _, factor := range []float64{1, 2, 5} {
			if v := factor * math.Pow(10, power); v >= low && v <= high {
				all = append(all, plot.Tick{Value: v, Label: fmt.Sprintf("%g", math.Round(v*1e6)/1e6)})
			}
		}
	}

	return all
}

// evenly has four to ten ticks of 1, 2 or 5 times a power of ten.
type evenly struct{}

// Ticks implements plot.Ticker.
func (evenly) Ticks(low, high float64) []plot.Tick {
	const atMost = 9 // steps
	step := math.Pow(10, math.Floor(math.Log10((high-low)/atMost)))
	for _, factor := range []float64{2, 2.5, 2} { // 2, 5, 10
		if (high-low)/step > atMost {
			step *= factor
		}
	}

	var all []plot.Tick
	for i := math.Ceil(low / step); i*step <= high; i++ {
		all = append(all, plot.Tick{Value: i * step, Label: fmt.Sprintf("%g", math.Round(i*step*1e6)/1e6)})
	}

	return all
}

// theme makes an image dark for readers whose programs are. It has its own background, so that its text is readable on
// any page. Programs that do not know these rules show it light.
const theme = `<style>
text { fill: #1f2328 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  [style*="fill:#FFFFFF"] { fill: #0d1117 !important }
  [style*="stroke:#000000"] { stroke: #e6edf3 !important }
  [style*="stroke:#DDDDDD"] { stroke: #30363d !important }
}
</style>
`

// family has the fonts whose letters are as wide as those that the plot was laid out with.
const family = "Liberation Sans, Arial, Helvetica, Nimbus Sans, sans-serif"

// textElement is one of vgsvg's: attributes, size of the font, text.
var textElement = regexp.MustCompile(`<text ([^<>]*font-size:([0-9.]+)px[^<>]*)>([^<]*)</text>`)

// setWidths makes texts as wide as in the font that the plot was laid out with, also where a reader has other fonts.
func setWidths(image string) string {
	return textElement.ReplaceAllStringFunc(image, func(element string) string {
		parts := textElement.FindStringSubmatch(element)
		text := strings.TrimSpace(html.UnescapeString(parts[3])) // a space at the end is not drawn
		size, err := strconv.ParseFloat(parts[2], 64)
		if err != nil || text == "" {
			return element
		}
		face := font.DefaultCache.Lookup(plot.DefaultFont, vg.Points(size))

		return fmt.Sprintf(`<text textLength="%.2f" lengthAdjust="spacingAndGlyphs" %s>%s</text>`,
			face.Width(text).Points(), parts[1], parts[3])
	})
}

// save writes a plot as SVG, with text as text.
func save(p *plot.Plot, width, height vg.Length, file string) error {
	canvas := vgsvg.New(width, height)
	p.Draw(draw.Crop(draw.New(canvas), 8, -18, 4, -8)) // room for labels at the ends of the axes
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return err
	}
	text := strings.ReplaceAll(setWidths(out.String()), "Liberation Sans", family)
	head, rest, _ := strings.Cut(text, "<g ")

	return os.WriteFile(file, []byte(head+theme+"<g "+rest), 0o644)
}

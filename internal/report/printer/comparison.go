package printer

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/app/compare"
)

// ComparisonText writes what differs between two generations, and below it why.
func ComparisonText(w io.Writer, d compare.Difference, s Style) error {
	b := page{Style: s}
	b.writeLine(s.bold("From generation " + generationTitle(d.From, d.FromTime)))
	b.writeLine(s.bold("to   generation " + generationTitle(d.To, d.ToTime)))

	if len(d.Items) > 0 {
		b.writeLine("\nLabels, taints, flags, settings")
	}
	for _, i := range d.Items {
		b.writeItem(i)
	}
	if len(d.Files) > 0 {
		b.writeLine("\nFiles")
	}
	for _, f := range d.Files {
		b.writeFileChange(f)
	}
	if len(d.Inputs) > 0 {
		b.writeLine("\nWhat changed before")
	}
	for _, i := range d.Inputs {
		b.writeInput(i)
	}
	b.writeConclusion(d)

	return b.flush(w)
}

func generationTitle(number int, at time.Time) string {
	text := strconv.Itoa(number)
	if at.IsZero() {
		return text
	}

	return text + ", " + at.Local().Format(time.DateTime)
}

// writeConclusion writes the gaps of the comparison, and that nothing differs.
func (b *page) writeConclusion(d compare.Difference) {
	if len(d.Problems) > 0 {
		b.writeLine("\nNot compared")
	}
	for _, p := range d.Problems {
		b.writeLines("  ", "    ", b.wrap(p, b.Width-4))
	}
	if len(d.Items)+len(d.Files)+len(d.Inputs)+len(d.Problems) == 0 {
		b.writeLine("\nNothing differs.")
	}
}

// sign returns the mark of a change, painted.
func (b *page) sign(before, after string) string {
	switch {
	case before == "":
		return b.green("+")
	case after == "":
		return b.red("-")
	}

	return b.yellow("~")
}

func (b *page) writeItem(i compare.ItemChange) {
	head := "  " + b.sign(i.Before, i.After) + " " + b.cell(i.Item)
	switch {
	case i.Sensitive:
		b.writeLine("  " + b.yellow("~") + " " + b.cell(i.Item) + "  (sensitive)")
	case i.Before == "":
		b.writeLine(head + " = " + b.cell(i.After))
	case i.After == "":
		b.writeLine(head + ", which was " + b.cell(i.Before))
	default:
		b.writeLine(head + ": " + b.cell(i.Before) + " → " + b.cell(i.After))
	}
	b.writeCauses(i.Because, i.Perhaps)
}

func (b *page) writeCauses(because, perhaps []string) {
	text := "the cause is not known"
	if len(because) > 0 {
		text = "because of " + strings.Join(because, ", ")
	}
	if len(perhaps) > 0 {
		text += "; perhaps " + strings.Join(perhaps, ", ")
	}
	for _, l := range b.wrap(text, b.Width-8) {
		b.writeLine("        " + b.dim(l))
	}
}

func (b *page) writeFileChange(f compare.FileChange) {
	sign := map[string]string{
		"create": b.green("+"),
		"delete": b.red("-"),
	}[f.Action]
	if sign == "" {
		sign = b.yellow("~")
	}
	line := joinParts("  ", f.Path, f.Action, f.Attributes)
	b.writeLine("  " + sign + " " + b.cell(line))
	b.writeCauses(f.Because, f.Perhaps)
	switch {
	case f.Hidden != "":
		b.writeLine("      the contents are not shown: " + b.cell(f.Hidden))
	case f.Action == "update":
		b.writeTextDiff(f.Before, f.After)
	}
}

// writeTextDiff writes a unified diff below its heading.
func (b *page) writeTextDiff(before, after string) {
	for _, l := range splitLines(unified(b.clean(before), b.clean(after))) {
		paint := func(t string) string { return t }
		switch {
		case strings.HasPrefix(l, "+"):
			paint = b.green
		case strings.HasPrefix(l, "-"):
			paint = b.red
		case strings.HasPrefix(l, "@@"):
			paint = b.dim
		}
		b.writeLine("      " + paint(l))
	}
}

func (b *page) writeInput(i compare.Input) {
	b.writeLine("  " + b.cell(i.Name))
	for _, d := range i.Details {
		at := b.cell(strings.TrimPrefix(d.Path, "."))
		switch {
		case d.IsText && (d.Before != "" && d.After != "" || countLines(d) <= maxNewLines):
			if at != "" {
				b.writeLine("    " + at)
			}
			b.writeTextDiff(d.Before, d.After)
		case d.IsText:
			b.writeLine("    " + joinParts(": ", at, b.describeText(d)))
		case d.Before == "":
			b.writeLine("    " + joinParts(": ", at, "new: "+b.detail(d.After)))
		case d.After == "":
			b.writeLine("    " + joinParts(": ", at, "gone; it was "+b.detail(d.Before)))
		default:
			change := b.detail(d.Before) + " → " + b.detail(d.After)
			b.writeLine("    " + joinParts(": ", at, change))
		}
	}
	if i.Left > 0 {
		b.writeLine("    … and " + Count(i.Left, "more difference"))
	}
}

// maxDetail is how many characters of a value of an input are shown, such as the list of all cores.
const maxDetail = 100

// detail returns a value of an input for a line. -o json has all of it.
func (b *page) detail(text string) string {
	return cut(b.cell(text), maxDetail)
}

// maxNewLines is how many lines of a text that only one side has are shown.
const maxNewLines = 20

func countLines(d compare.Detail) int {
	return len(splitLines(d.Before)) + len(splitLines(d.After))
}

// describeText describes a text that only one side has.
func (b *page) describeText(d compare.Detail) string {
	if d.Before == "" {
		return "new, " + Count(countLines(d), "line")
	}

	return "gone, it had " + Count(countLines(d), "line")
}

type comparisonDocument struct {
	FormatVersion int            `json:"format_version"`
	From          int            `json:"from"`
	To            int            `json:"to"`
	Items         []itemDocument `json:"items"`
	Files         []fileDiffJSON `json:"files"`
	Causes        []inputJSON    `json:"causes"`
	Problems      []string       `json:"problems"`
}

type itemDocument struct {
	Item      string   `json:"item"`
	Before    any      `json:"before"`
	After     any      `json:"after"`
	Sensitive bool     `json:"sensitive,omitempty"`
	Because   []string `json:"because"`
	Perhaps   []string `json:"perhaps,omitempty"`
}

type fileDiffJSON struct {
	Path       string   `json:"path"`
	Action     string   `json:"action"`
	Attributes string   `json:"attributes,omitempty"`
	Hidden     string   `json:"hidden,omitempty"`
	Diff       string   `json:"diff,omitempty"`
	Because    []string `json:"because"`
	Perhaps    []string `json:"perhaps,omitempty"`
}

type inputJSON struct {
	Name    string       `json:"name"`
	Kind    string       `json:"kind"`
	Details []detailJSON `json:"details"`
	Left    int          `json:"left,omitempty"`
}

type detailJSON struct {
	Path   string `json:"path,omitempty"`
	Before any    `json:"before"`
	After  any    `json:"after"`
	Diff   string `json:"diff,omitempty"`
}

// ComparisonJSON writes the same as one document of format version 1.
func ComparisonJSON(w io.Writer, d compare.Difference) error {
	doc := comparisonDocument{
		FormatVersion: 1,
		From:          d.From,
		To:            d.To,
		Items:         []itemDocument{},
		Files:         []fileDiffJSON{},
		Causes:        []inputJSON{},
		Problems:      orEmpty(d.Problems),
	}
	for _, i := range d.Items {
		doc.Items = append(doc.Items, itemDocument{
			Item:      i.Item,
			Before:    rawOrText(i.Before),
			After:     rawOrText(i.After),
			Sensitive: i.Sensitive,
			Because:   orEmpty(i.Because),
			Perhaps:   i.Perhaps,
		})
	}
	for _, f := range d.Files {
		x := fileDiffJSON{
			Path:       f.Path,
			Action:     f.Action,
			Attributes: f.Attributes,
			Hidden:     f.Hidden,
			Because:    orEmpty(f.Because),
			Perhaps:    f.Perhaps,
		}
		if f.Hidden == "" {
			x.Diff = unified(f.Before, f.After)
		}
		doc.Files = append(doc.Files, x)
	}
	for _, i := range d.Inputs {
		doc.Causes = append(doc.Causes, inputToJSON(i))
	}

	return EncodeJSON(w, doc)
}

func inputToJSON(i compare.Input) inputJSON {
	out := inputJSON{
		Name:    i.Name,
		Kind:    i.Kind,
		Details: []detailJSON{},
		Left:    i.Left,
	}
	for _, d := range i.Details {
		x := detailJSON{Path: d.Path}
		if d.IsText {
			x.Diff = unified(d.Before, d.After)
		} else {
			x.Before = rawOrText(d.Before)
			x.After = rawOrText(d.After)
		}
		out.Details = append(out.Details, x)
	}

	return out
}

// rawOrText returns JSON as it is, words as a text, and nil for "".
func rawOrText(text string) any {
	switch {
	case text == "":
		return nil
	case json.Valid([]byte(text)):
		return json.RawMessage(text)
	}

	return text
}

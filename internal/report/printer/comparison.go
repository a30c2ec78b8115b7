package printer

import (
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
func (b *page) sign(before, after compare.Value) string {
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
		b.writeLine(head + " = " + b.cell(string(i.After)))
	case i.After == "":
		b.writeLine(head + ", which was " + b.cell(string(i.Before)))
	default:
		b.writeLine(head + ": " + b.cell(string(i.Before)) + " → " + b.cell(string(i.After)))
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
	for _, l := range splitLines(compare.Unified(b.clean(before), b.clean(after))) {
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
		case d.Texts != nil && (d.Texts[0] != "" && d.Texts[1] != "" || countLines(d) <= maxNewLines):
			if at != "" {
				b.writeLine("    " + at)
			}
			b.writeTextDiff(d.Texts[0], d.Texts[1])
		case d.Texts != nil:
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
func (b *page) detail(v compare.Value) string {
	return cut(b.cell(string(v)), maxDetail)
}

// maxNewLines is how many lines of a text that only one side has are shown.
const maxNewLines = 20

func countLines(d compare.Detail) int {
	return len(splitLines(d.Texts[0])) + len(splitLines(d.Texts[1]))
}

// describeText describes a text that only one side has.
func (b *page) describeText(d compare.Detail) string {
	if d.Texts[0] == "" {
		return "new, " + Count(countLines(d), "line")
	}

	return "gone, it had " + Count(countLines(d), "line")
}

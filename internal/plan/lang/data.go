package lang

import (
	"fmt"
	"path"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/origin"
)

// dataSuffixes are the endings of the files of sitedata(). Each has a part of its own, because a folder of a site may
// have other YAML and JSON, and each file that a site reads is copied into every recording.
var dataSuffixes = []string{dataPart + ".yaml", dataPart + ".yml", dataPart + ".json", dataPart + ".txt"}

const dataPart = ".preletdata"

// isData reports whether a name is that of a data file.
func isData(name string) bool { return hasSuffix(name, dataSuffixes) }

// addData adds a data file by its name without the directory.
func (l *loader) addData(name string, src []byte) {
	if diags := checkText(name, src); diags.HasErrors() {
		l.Report(diags...)
		return
	}

	v, err := decodeData(name, src)
	if err != nil {
		at := fileRange(name)
		if line, offset := codec.PlaceOf(err); line > 0 {
			start := len(strings.Join(strings.SplitAfter(string(src), "\n")[:line-1], "")) + offset
			at = RangeOf(src, name, start, start)
			if strings.HasPrefix(findLine(src, line), "\t") {
				err = fmt.Errorf("line %d begins with a tab: YAML indents with spaces", line)
			}
		}
		l.Error(fault.Syntax, at, "This data file cannot be read", "%s.", origin.Capitalize(err.Error()))
		return
	}

	l.site.Data[path.Base(name)] = v
}

// decodeData returns the value of a data file: that of its document, or its text.
func decodeData(name string, src []byte) (cty.Value, error) {
	switch path.Ext(name) {
	case ".json":
		return codec.DecodeJSON(src)
	case ".txt":
		return codec.FromGo(string(src))
	}

	return codec.DecodeYAML(src)
}

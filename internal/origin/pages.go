package origin

// Page explains a code to somebody who met it.
type Page struct {
	Title string // what went wrong, in one line
	Text  string // why it is refused, and what to do; plain paragraphs
}

// PageOf is the page of a code.
func PageOf(c Code) (Page, bool) {
	p, ok := pages[c]
	return p, ok
}

var pages = map[Code]Page{}

package server

import (
	"testing"
)

// A position is in UTF-16 code units: the smiley has two, and the accent that is a character of its own has one.
func TestPositions(t *testing.T) {
	const text = "a😀b\r\ncafe\u0301 x\nend"
	for _, c := range []struct {
		at   position
		want string // the text behind the position
	}{
		{position{0, 0}, text},
		{position{0, 1}, text[1:]},
		{position{0, 3}, text[5:]},
		{position{1, 5}, " x\nend"},
		{position{0, 4}, text[6:]},
		{position{2, 3}, ""},
	} {
		offset := offsetOf(text, c.at)
		if text[offset:] != c.want {
			t.Errorf("offsetOf(%v): got the place before %q, want before %q", c.at, text[offset:], c.want)
		}
		if got := positionOf(text, offset); got != c.at {
			t.Errorf("positionOf(%d): got %v, want %v", offset, got, c.at)
		}
	}

	if got, want := positionOf(text, 7), (position{0, 4}); got != want { // between CR and LF
		t.Errorf("positionOf(7): got %v, want %v, the end of the line", got, want)
	}
	if got := text[offsetOf(text, position{0, 99}):]; got != text[6:] {
		t.Errorf("offsetOf behind the end of a line: got the place before %q, want before %q", got, text[6:])
	}
	for _, outside := range []position{{0, 99}, {9, 0}, {2, 99}, {-1, -1}} {
		if offset := offsetOf(text, outside); offset < 0 || offset > len(text) {
			t.Errorf("offsetOf(%v): got %d, want a byte of the text", outside, offset)
		}
	}
	if got := posOf(text, len("a😀b\r\ncafe\u0301")); got.Line != 2 || got.Column != 5 {
		t.Errorf("posOf behind the accent: got %d:%d, want 2:5, as HCL counts", got.Line, got.Column)
	}
}

// A path with spaces and other signs is the same as a URI and back.
func TestURIs(t *testing.T) {
	for _, file := range []string{"/etc/prelet/site.hcl", "/a b/ü#?%.hcl"} {
		if got, ok := pathOf(uriOf(file)); !ok || got != file {
			t.Errorf("pathOf(%q): got %q, %v; want %q", uriOf(file), got, ok, file)
		}
	}
	for _, uri := range []string{"untitled:Untitled-1", "file://", "http://x/y.hcl", "%", ""} {
		if got, ok := pathOf(uri); ok {
			t.Errorf("pathOf(%q): got %q, want no file", uri, got)
		}
	}
}

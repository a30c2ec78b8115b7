package main

import "testing"

// TestAddRows: a row of status that was shown before the generations were read is shown again only if it has changed.
func TestAddRows(t *testing.T) {
	const early = "prelet   ok\nlast run generation 1\n         is in place\nkubelet  may start\n"
	var shown []string
	for _, c := range []struct{ text, want string }{
		{early, early},
		{
			"prelet   degraded\nlast run generation 1\n         is in place\nkubelet  may start\nheld     by hand\n",
			"prelet   degraded\nheld     by hand\n",
		},
		{"last run generation 1\n         is lost\n", "last run generation 1\n         is lost\n"},
	} {
		if got := addRows(&shown, c.text); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

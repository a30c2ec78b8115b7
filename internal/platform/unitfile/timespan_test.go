package unitfile

import (
	"math"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// timespans are texts, and what systemd makes of them.
var timespans = map[string]struct {
	want time.Duration
	ok   bool
}{
	"30":             {30 * time.Second, true},
	" 1min 30s ":     {90 * time.Second, true},
	"1min30s":        {90 * time.Second, true},
	"2.5s":           {2500 * time.Millisecond, true},
	"500ms":          {500 * time.Millisecond, true},
	"7us":            {7 * time.Microsecond, true},
	"1h 1 m":         {61 * time.Minute, true},
	"2w 1d":          {15 * 24 * time.Hour, true},
	"1y 1M":          {(31557600 + 2629800) * time.Second, true},
	"0":              {0, true},
	"infinity":       {math.MaxInt64, true},
	"":               {0, false},
	"soon":           {0, false},
	"-5":             {0, false},
	"5 fortnights":   {0, false},
	"30s, and so on": {0, false},
}

func TestParseTimespan(t *testing.T) {
	for text, c := range timespans {
		if got, ok := ParseTimespan(text); got != c.want || ok != c.ok {
			t.Errorf("%q: got %s, %t; want %s, %t", text, got, ok, c.want, c.ok)
		}
	}

	if got, ok := ParseTimespan("99999999999y"); got != math.MaxInt64 || !ok {
		t.Errorf("a span that does not fit: got %s, %t; want the longest", got, ok)
	}
}

// TestTimespanOfSystemd gives the same texts to systemd's own parser.
func TestTimespanOfSystemd(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze here")
	}
	micros := regexp.MustCompile(`[uµμ]s: ([0-9]+)`)

	for text, c := range timespans {
		if text == "infinity" || text == "" {
			continue // it prints infinity without a number, and takes an empty argument
		}
		out, err := exec.CommandContext(t.Context(), analyze, "timespan", "--", text).CombinedOutput()
		if (err == nil) != c.ok {
			t.Errorf("%q: systemd has %v, want accepted: %t\n%s", text, err, c.ok, out)
			continue
		}
		if !c.ok {
			continue
		}
		found := micros.FindSubmatch(out)
		if found == nil {
			t.Fatalf("%q: got %s, want microseconds", text, out)
		}
		if n, _ := strconv.ParseInt(string(found[1]), 10, 64); time.Duration(n)*time.Microsecond != c.want {
			t.Errorf("%q: systemd has %s µs, want %s", text, found[1], c.want)
		}
	}
}

package cluster

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// TestPace has each wait of a boot that asks alone: its least and its most, again and again.
func TestPace(t *testing.T) {
	const long = time.Hour
	for _, c := range []struct {
		name string
		f    failure
		left time.Duration
		want string
	}{
		{"no answer", failure{}, long, "250ms-500ms 500ms-1s 1s-2s 2s-4s 2.5s-5s 2.5s-5s"},
		{"told to wait a second", failure{after: 1}, long, "1s-5s 1s-9s 1s-16s 1s-16s 1s-16s 1s-16s"},
		{"told to wait half a minute", failure{after: 32}, long, "32s-47s 32s-47s 32s-47s 32s-47s 32s-47s 32s-47s"},
		{"away for a moment", failure{back: 400 * time.Millisecond}, long, "400ms-800ms 400ms-800ms 400ms-800ms 400ms-800ms 400ms-800ms 400ms-800ms"},
		{"away for two seconds", failure{back: 2 * time.Second}, long, "5s-10s 5s-10s 5s-10s 5s-10s 5s-10s 5s-10s"},
		{"away for a minute", failure{back: time.Minute}, long, "5s-20s 5s-20s 5s-20s 5s-20s 5s-20s 5s-20s"},
		{"two seconds to shake hands", failure{busy: 2 * time.Second}, long, "0s-6s 0s-6s 0s-6s 0s-6s 0s-6s 0s-6s"},
		{"silent for a minute", failure{busy: time.Minute}, long, "0s-15s 0s-15s 0s-15s 0s-15s 0s-15s 0s-15s"},
		{"starting", failure{starting: true}, long, "2.5s-7.5s 2.5s-12.5s 2.5s-17.5s 2.5s-17.5s 2.5s-17.5s 2.5s-17.5s"},
		{"starting, at the end", failure{starting: true}, 3 * time.Second, "1.5s-2.25s 1.5s-2.25s 1.5s-2.25s 1.5s-2.25s 1.5s-2.25s 1.5s-2.25s"},
		{"away, at the end", failure{back: time.Minute}, 4 * time.Second, "2s-3s 2s-3s 2s-3s 2s-3s 2s-3s 2s-3s"},
		{"told to wait, at the end", failure{after: 2}, 3 * time.Second, "2s-2.5s 2s-2.5s 2s-2.5s 2s-2.5s 2s-2.5s 2s-2.5s"},
		{"told to wait too long", failure{after: 4}, 3 * time.Second, "4s-4s 4s-4s 4s-4s 4s-4s 4s-4s 4s-4s"}, // the caller gives up
	} {
		opts := Options{}.withDefaults()
		p := pace{opts: &opts, backoff: opts.BackoffMin}
		got := ""
		for range 6 {
			w := p.wait(&c.f, c.left)
			got += fmt.Sprintf(" %v-%v", w.least, w.most)
			if w.asked != time.Duration(c.f.after)*time.Second {
				t.Errorf("%s: %v was asked for", c.name, w.asked)
			}
			if w.pause < w.least || w.pause > w.most {
				t.Errorf("%s: %v is not between %v and %v", c.name, w.pause, w.least, w.most)
			}
		}
		if got[1:] != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got[1:], c.want)
		}
	}
}

// TestReadRetryAfter: seconds or a date, as RFC 9110, 10.2.3 has it, bounded both.
func TestReadRetryAfter(t *testing.T) {
	const date = "Wed, 21 Oct 2015 07:28:00 GMT"
	for _, c := range []struct {
		text, date string
		want       int
	}{
		{"", date, 0},
		{"0", date, 0},
		{"7", "", 7},
		{"120", "", 32},
		{"99999999999", "", 32},
		{"-1", "", 0},
		{"1.5", "", 0},
		{"soon", date, 0},
		{"Wed, 21 Oct 2015 07:28:09 GMT", date, 9},
		{"Wednesday, 21-Oct-15 07:28:09 GMT", date, 9},
		{"Wed Oct 21 07:28:09 2015", date, 9},
		{date, date, 0},
		{"Wed, 21 Oct 2015 07:27:00 GMT", date, 0},
		{"Fri, 31 Dec 9999 23:59:59 GMT", date, 32},
		{"Wed, 21 Oct 2015 07:28:09 GMT", "", 0},
		{"Wed, 21 Oct 2015 07:28:09 GMT", "today", 0},
	} {
		if got := retryAfter(http.Header{"Retry-After": {c.text}, "Date": {c.date}}); got != c.want {
			t.Errorf("Retry-After %q at %q: %d s, want %d", c.text, c.date, got, c.want)
		}
	}
}

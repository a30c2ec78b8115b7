package main

import (
	"math"
	"slices"
	"strings"
	"time"
)

// stormSummary is what became of all of them.
type stormSummary struct {
	Boots    int            `json:"boots"`
	Failed   int            `json:"failed"`
	Failures []string       `json:"failures,omitempty"` // a few
	Seconds  float64        `json:"seconds"`            // until the last was done
	P50      float64        `json:"p50_s"`
	P90      float64        `json:"p90_s"`
	Max      float64        `json:"max_s"`
	Retried  int            `json:"retried"`      // boots that had to ask again
	Retries  int            `json:"retries"`      // how often
	Most     int            `json:"most_retries"` // by one boot
	Causes   map[string]int `json:"causes"`       // of retries
	// Together is the largest number of retries that were planned for the same 10 ms.
	Together int `json:"together"`
}

func summary(all []outcome, took time.Duration) stormSummary {
	r := stormSummary{
		Boots:   len(all),
		Seconds: round(took.Seconds()),
		Causes:  map[string]int{},
	}
	var seconds []float64
	slots := map[int64]int{}
	for _, o := range all {
		seconds = append(seconds, o.ended.Sub(o.began).Seconds())
		if o.failure != "" {
			r.Failed++
			if len(r.Failures) < 5 && !slices.Contains(r.Failures, o.failure) {
				r.Failures = append(r.Failures, o.failure)
			}
		}
		if len(o.retries) > 0 {
			r.Retried++
		}
		r.Retries += len(o.retries)
		r.Most = max(r.Most, len(o.retries))
		for _, x := range o.retries {
			r.Causes[cause(x.Why)]++
			slots[x.at.Add(x.Wait).UnixMilli()/10]++
		}
	}
	for _, n := range slots {
		r.Together = max(r.Together, n)
	}
	slices.Sort(seconds)
	at := func(q float64) float64 {
		if len(seconds) == 0 {
			return 0
		}
		rank := int(q * float64(len(seconds)))
		return round(seconds[min(len(seconds)-1, rank)])
	}
	r.P50, r.P90, r.Max = at(0.5), at(0.9), at(1)
	return r
}

// cause is a reason without what differs from boot to boot.
func cause(why string) string {
	for _, c := range []string{
		"connection refused", "no connection within", "no complete response", "HTTP 429",
		"not ready yet", "HTTP 401", "HTTP 403",
		"HTTP 500", "HTTP 503", "no signature", "broken pipe", "connection reset", "before a complete response",
	} {
		if strings.Contains(why, c) {
			return c
		}
	}
	return why
}

func round(f float64) float64 { return math.Round(f*100) / 100 }

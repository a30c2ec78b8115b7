package main

import (
	"math"
	"slices"
	"strings"
	"time"
)

// result is what became of all of them.
type result struct {
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
	// Asked are retries that a server told to wait (Retry-After), and Early are those that came before it wanted them, by the clock;
	// and refusals of a server that has too many requests, which always says how long to wait, of which nobody took notice.
	Asked int `json:"asked"`
	Early int `json:"early"`
	// Together is the largest number of retries that were planned for the same 10 ms; Herd is what it would be without chance.
	Together int `json:"together"`
	Herd     int `json:"herd"`
	// Waits are those that have a part by chance, and Uneven is how far these parts are from being spread evenly over what is allowed:
	// the statistic of Kolmogorov and Smirnov, times the root of their number. Of even ones it is more than 2.7 once in a million times;
	// of those that are all alike it is at least half the root.
	Waits  int     `json:"waits"`
	Uneven float64 `json:"uneven"`
}

func summary(all []outcome, took time.Duration) result {
	r := result{Boots: len(all), Seconds: round(took.Seconds()), Causes: map[string]int{}}
	var seconds, chances []float64
	slots, herds := map[int64]int{}, map[int64]int{}
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
		for i, x := range o.retries {
			why := cause(x.Why)
			r.Causes[why]++
			next := o.ended // a boot is one exchange after another
			if i+1 < len(o.retries) {
				next = o.retries[i+1].at
			}
			if x.Asked > 0 {
				r.Asked++
			}
			if next.Before(x.at.Add(x.Asked)) || why == tooMany && x.Asked == 0 {
				r.Early++
			}
			if x.Most > x.Least {
				chances = append(chances, float64(x.Wait-x.Least)/float64(x.Most-x.Least))
			}
			slots[x.at.Add(x.Wait).UnixMilli()/10]++
			herds[x.at.Add(x.Least).UnixMilli()/10]++
		}
	}
	for _, n := range slots {
		r.Together = max(r.Together, n)
	}
	for _, n := range herds {
		r.Herd = max(r.Herd, n)
	}
	r.Waits, r.Uneven = len(chances), round(uneven(chances))
	slices.Sort(seconds)
	at := func(q float64) float64 {
		if len(seconds) == 0 {
			return 0
		}
		return round(seconds[min(len(seconds)-1, int(q*float64(len(seconds))))])
	}
	r.P50, r.P90, r.Max = at(0.5), at(0.9), at(1)
	return r
}

// uneven compares numbers with an even spread over [0,1).
func uneven(x []float64) (most float64) {
	slices.Sort(x)
	n := float64(len(x))
	for i, v := range x {
		most = max(most, math.Abs(v-float64(i)/n), math.Abs(v-float64(i+1)/n))
	}
	return most * math.Sqrt(n)
}

const tooMany = "HTTP 429"

// cause is a reason without what differs from boot to boot.
func cause(why string) string {
	for _, c := range []string{"connection refused", "no connection within", "it was away and is back", "it is busy", "no whole answer", tooMany, "not ready yet", "HTTP 401", "HTTP 403", "HTTP 500", "HTTP 503", "no signature", "broken pipe", "connection reset", "before a whole answer"} {
		if strings.Contains(why, c) {
			return c
		}
	}
	return why
}

func round(f float64) float64 { return math.Round(f*100) / 100 }

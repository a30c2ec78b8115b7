package unitfile

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/model/texts"
)

// timespanPart is one number of a time span with its unit.
var timespanPart = texts.LazyRegexp(`^([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Zµμ]*)\s*`)

// ParseTimespan parses a time span of systemd, such as 30, 1min 30s or infinity, which is the longest duration. A
// number without a unit counts seconds. ok is false for a text that systemd does not accept, and then ignores. Source:
// systemd.time(7), "Parsing Time Spans".
func ParseTimespan(text string) (span time.Duration, ok bool) {
	text = strings.TrimSpace(text)
	if text == "infinity" {
		return math.MaxInt64, true
	}

	sum := 0.0
	for rest := text; rest != ""; {
		part := timespanPart().FindStringSubmatch(rest)
		if part == nil {
			return 0, false
		}
		unit := timespanUnit(part[2])
		number, err := strconv.ParseFloat(part[1], 64)
		if unit == 0 || err != nil {
			return 0, false
		}
		sum += number * float64(unit)
		rest = rest[len(part[0]):]
	}
	if sum >= math.MaxInt64 {
		return math.MaxInt64, true
	}

	return time.Duration(sum), text != ""
}

// timespanUnit returns the length of a unit, 0 for a unit that systemd does not know.
func timespanUnit(name string) time.Duration {
	const day = 24 * time.Hour

	switch name {
	case "us", "usec", "µs", "μs":
		return time.Microsecond
	case "ms", "msec":
		return time.Millisecond
	case "", "s", "sec", "second", "seconds":
		return time.Second
	case "m", "min", "minute", "minutes":
		return time.Minute
	case "h", "hr", "hour", "hours":
		return time.Hour
	case "d", "day", "days":
		return day
	case "w", "week", "weeks":
		return 7 * day
	case "M", "month", "months":
		return 2629800 * time.Second
	case "y", "year", "years":
		return 31557600 * time.Second
	}

	return 0
}

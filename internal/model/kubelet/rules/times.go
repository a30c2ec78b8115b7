package rules

import (
	"strconv"
	"time"
)

const (
	wholePeriod  = "shutdownGracePeriod"
	periodsByPod = "shutdownGracePeriodByPodPriority"
)

func isNoFrequency(v value) bool {
	d := v.durationOf("syncFrequency")
	v.why = strconv.FormatInt(int64(d), 10)

	return d <= 0
}

// isShortTimeout reports a timeout below 1 s. Below 1 ms no runtime was seen to meet it; some met 10 ms.
func isShortTimeout(v value) bool {
	timeout := v.durationOf("runtimeRequestTimeout")
	switch {
	case timeout >= time.Second:
		return false
	case timeout <= 0 && v.minor >= 37:
		return v.because("", "connectionTimeout must be positive: the timeout is %s", timeout)
	case timeout > time.Millisecond:
		v.severity = Warning
	}

	return v.because("", "validate service connection: context deadline exceeded: "+
		"no runtime responds to each request within %s", timeout)
}

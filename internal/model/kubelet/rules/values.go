package rules

import "fmt"

// Limits of open files, measured on two CPUs: a kubelet v1.33.13 does not start with 22 and starts with 24, v1.37.1
// does not start with 24 and starts with 28; others may need a few less. Pods need more.
const (
	minOpenFiles = 18
	fewOpenFiles = 1024
)

// User namespaces of pods: the number of user IDs, and of those that a pod gets by default.
const (
	userIDs       = 1 << 32
	defaultPodIDs = 65536
)

func isZero(v value) bool {
	n, ok := v.number()

	return ok && n == 0
}

// lacksUserIDs reports a number of pods for which there are not enough user IDs.
func lacksUserIDs(v value) bool {
	podIDs, _ := v.number()
	isUsed := v.minor >= 35                          // before, the kubelet reads the field after it has divided the IDs
	if !isUsed || podIDs <= 0 || podIDs >= userIDs { // config-ids-per-pod reports it
		podIDs = defaultPodIDs
	}
	pods := v.positiveOf("maxPods")
	if !v.isGateOn("UserNamespacesSupport") {
		return false
	}
	if exists, _ := v.exists("/usr/bin/getsubids"); exists { // it may give the kubelet fewer IDs
		v.severity = Warning
	}

	const hint = "remove it, or write 65536 times a power of 2"
	free := int64(userIDs) - podIDs
	switch {
	case free%podIDs != 0:
		return v.because(hint, "length %d is not a multiple of %d", free, podIDs)
	case pods <= free/podIDs:
		return false
	case v.valueAt("maxPods") == nil:
		return v.because(hint, "are not enough to support %d pods", pods)
	}
	v.place = "maxPods"
	most := fmt.Sprintf("at most %d; Kubernetes is tested with 110", free/podIDs)

	return v.because(most, "are not enough to support %d pods", pods)
}

func hasFewFiles(v value) bool {
	n := v.positiveOf("maxOpenFiles")
	if n >= minOpenFiles {
		v.severity = Warning
	}

	return n >= 0 && n < fewOpenFiles
}

func isAboveHighThreshold(v value) bool {
	if v.raw == nil {
		v.place = "imageGCHighThresholdPercent"
	}

	low, high := v.numberOf("imageGCLowThresholdPercent"), v.numberOf("imageGCHighThresholdPercent")

	return low >= high && v.because("",
		"imageGCLowThresholdPercent %d must be less than imageGCHighThresholdPercent %d", low, high)
}

func isBadPodIDs(v value) bool {
	n, ok := v.number()

	return ok && (n <= 0 || n >= userIDs || n%defaultPodIDs != 0)
}

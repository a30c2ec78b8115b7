package rules

import (
	_ "embed"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prelet/prelet/internal/model/kubelet"
)

// table has the rules of the kubelet. Where the kubelet checks something decides what to write:
//
//	the form of its flags and configuration, feature gates, pkg/kubelet/apis/config/validation: a dry run of its
//	        binary (kubeletbin.DryRun) finds it, if plan runs as root on a node. For plans made elsewhere add `at` and
//	        `if` to a rule of the same kind, as config-out-of-range or config-unknown-word. If that needs more than an
//	        existing condition, write no rule, only an entry of testdata/refusals.yaml with exits and without a rule.
//	any other refusal, and anything that it silently ignores: a rule
//
// A rule begins with its id, by the faulty part: flag-, config-, gate-, machine-. Then, separated by commas:
//
//	exits, error; ignores, warning; deprecated, warning    the kubelet's reaction, and how prelet reports it. It is
//	        exits, warning if it may be otherwise when the kubelet starts. Others are in rules.go
//	dry-run the dry run finds it, and its words are better
//	since 1.27, until 1.30    the first version that has it, and the first that no longer has it, if not all have it
//	lists   it knows names, words or ranges of those versions in the tables: a newer kubelet may accept more, so for
//	        that one an error is a warning
//
// Then these lines:
//
//	what    violates it
//	source  the place in Kubernetes that you have read; paths are those of k8s.io/kubernetes
//	at      places that are checked: fields, members of an object or list (.*), flags (--NAME, --*); a field covers
//	        the flag that sets it; see checker.places
//	later   yes: the kubelet finds it after the end of a dry run
//	if      a condition (conditions.go has those with an argument, table.go the others), and "not" before it for the
//	        opposite; all must hold
//	place   the field or flag that is reported, if it is another one
//	says    the message, which quotes the kubelet unless a dry run does; {why}, which a condition sets, if there is
//	        none. For the names in braces see value.expand
//	hint    the next step; a condition may set another
//	find    a function that reports its findings itself (table.go)
//
// A rule may have several `at`, each with its own lines below. A line that begins with seven spaces continues the one
// before it.
//
//go:embed rules.txt
var table string

// All returns all rules, in the order of the table, which is parsed at the first call.
var All = sync.OnceValue(func() (all []Rule) {
	text := strings.ReplaceAll(table, "\n       ", " ")
	for _, paragraph := range strings.Split(text, "\n\n") {
		all = append(all, parseRule(paragraph))
	}

	return all
})

func parseRule(paragraph string) Rule {
	head, body, _ := strings.Cut(paragraph, "\n")
	id, properties, _ := strings.Cut(head, ": ")
	words := strings.Split(properties, ", ")
	r := Rule{ID: id, Effect: Effect(words[0]), Severity: Severity(words[1])}
	for _, word := range words[2:] {
		name, minor, _ := strings.Cut(word, " 1.")
		switch name {
		case "lists":
			r.Lists = true
		case "dry-run":
			r.isInDryRun = true
		case "since":
			r.Since = mustParse(minor)
		case "until":
			r.Until = mustParse(minor)
		}
	}
	for line := range strings.Lines(body) {
		key, text, _ := strings.Cut(line, " ")
		r.add(key, strings.TrimSpace(text))
	}

	return r
}

func (r *Rule) add(key, text string) {
	last := len(r.checks) - 1
	switch key {
	case "what":
		r.Summary = text
	case "source":
		r.Source = text
	case "at":
		r.checks = append(r.checks, placeCheck{where: text})
	case "find":
		r.checks = append(r.checks, placeCheck{find: finders[text]})
	case "if":
		r.checks[last].conditions = append(r.checks[last].conditions, parseCondition(text))
	case "later":
		r.checks[last].isLater = true
	case "place":
		r.checks[last].place = text
	case "says":
		r.checks[last].message = text
	case "hint":
		r.checks[last].hint = text
	default:
		panic("rules: unknown line " + key)
	}
}

// parseCondition parses a condition, its argument, and "not" before both.
func parseCondition(text string) func(value) bool {
	text, isNegated := strings.CutPrefix(text, "not ")
	name, argument, _ := strings.Cut(text, " ")
	if isTrue := parametric[name]; isTrue != nil {
		return func(v value) bool { return isTrue(v, argument) != isNegated }
	}
	isTrue, isKnown := conditions[name]
	if !isKnown {
		panic("rules: unknown condition " + name)
	}

	return func(v value) bool { return isTrue(v) != isNegated }
}

func mustParse(number string) int {
	n, err := strconv.Atoi(number)
	if err != nil {
		panic("rules: " + err.Error())
	}

	return n
}

// finders report violations that need more than a condition at a place.
var finders = map[string]func(*checker){
	"reportBadFlags":         reportBadFlags,
	"reportDeclared":         reportDeclared,
	"reportDeprecated":       reportDeprecated,
	"reportExcess":           reportExcess,
	"reportGateDependencies": reportGateDependencies,
	"reportKernel":           reportKernel,
	"reportListeners":        reportListeners,
	"reportMemorySum":        reportMemorySum,
	"reportNodeLabels":       reportNodeLabels,
	"reportNothingLeft":      reportNothingLeft,
	"reportNoValues":         reportNoValues,
	"reportPlugins":          reportPlugins,
	"reportTakenFlags":       reportTakenFlags,
	"walkFields":             walkFields,
}

// conditions are those without an argument.
var conditions = map[string]func(value) bool{
	"allowsFewPods":        allowsFewPods,
	"areOffline":           areOffline,
	"hasAmount":            hasAmount,
	"hasBadNodeIP":         hasBadNodeIP,
	"hasElements":          hasElements,
	"hasFewFiles":          hasFewFiles,
	"hasManyNodes":         hasManyNodes,
	"hasNoInterface":       hasNoInterface,
	"hasText":              hasText,
	"isAboveHighThreshold": isAboveHighThreshold,
	"isHalfPair":           isHalfPair,
	"isEndingGate":         isEndingGate,
	"isBadAmount":          isBadAmount,
	"isBadClientCA":        isBadClientCA,
	"isBadEndpoint":        isBadEndpoint,
	"isBadEnforcement":     isBadEnforcement,
	"isBadHostname":        isBadHostname,
	"isBadListenAddress":   isBadListenAddress,
	"isBadLogSize":         isBadLogSize,
	"isBadNUMALimit":       isBadNUMALimit,
	"isBadPodIDs":          isBadPodIDs,
	"isBadServingPair":     isBadServingPair,
	"isBadTaint":           isBadTaint,
	"isBadTaintList":       rejectedBy(kubelet.ParseTaints),
	"isBadThreshold":       isBadThreshold,
	"isBadThresholdAmount": isBadThresholdAmount,
	"isCgroupV1":           isCgroupV1,
	"isDeprecatedFlag":     isDeprecatedFlag,
	"isDisabledProvider":   isDisabledProvider,
	"isEnforced":           isEnforced,
	"isKilledAtShutdown":   isKilledAtShutdown,
	"isLockedGate":         isLockedGate,
	"isMissingFile":        isMissingFile,
	"isMissingPath":        isMissingPath,
	"isNoAddress":          rejectedBy(netip.ParseAddr),
	"isNoCPUSet":           rejectedBy(kubelet.ParseCPUSet),
	"isNoDuration":         rejectedBy(time.ParseDuration),
	"isNoFrequency":        isNoFrequency,
	"isNoPair":             isNoPair,
	"isOldMetrics":         isOldMetrics,
	"isOtherDriver":        isOtherDriver,
	"isOtherMachines":      isOtherMachines,
	"isOtherNode":          isOtherNode,
	"isRelative":           isRelative,
	"isRepeatedTaint":      isRepeatedTaint,
	"isSet":                isSet,
	"isSetByFlag":          isSetByFlag,
	"isShortTimeout":       isShortTimeout,
	"isSignal":             isSignal,
	"isSwapOn":             isSwapOn,
	"isTiny":               isTiny,
	"isUnknownFlag":        isUnknownFlag,
	"isUnknownGate":        isUnknownGate,
	"isUnknownSignal":      isUnknownSignal,
	"isZero":               isZero,
	"lacksCgroup":          lacksCgroup,
	"lacksCgroupRoot":      lacksCgroupRoot,
	"lacksDropInVariable":  lacksDropInVariable,
	"lacksEnforcedCgroup":  lacksEnforcedCgroup,
	"lacksGracePeriod":     lacksGracePeriod,
	"lacksHTTP2":           lacksHTTP2,
	"lacksReservation":     lacksReservation,
	"lacksReservedMemory":  lacksReservedMemory,
	"lacksRuntimeConfig":   lacksRuntimeConfig,
	"lacksSocket":          lacksSocket,
	"isOtherSocket":        isOtherSocket,
	"lacksStaticPods":      lacksStaticPods,
	"lacksThreshold":       lacksThreshold,
	"lacksUserIDs":         lacksUserIDs,
	"loadsServingPair":     loadsServingPair,
	"overridesField":       overridesField,
}

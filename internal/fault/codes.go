package fault

import "slices"

// Code names a kind of failure or finding. Each has an exit status and a page (`prelet explain code/NAME`).
type Code string

// The codes. Their pages are in pages/.
const (
	// Errors in the site.
	Syntax          Code = "syntax"
	Limit           Code = "limit"
	FileRefused     Code = "file-refused"
	Encoding        Code = "encoding"
	UnknownBlock    Code = "unknown-block"
	UnknownStage    Code = "unknown-stage"
	UnknownArgument Code = "unknown-argument"
	MissingArgument Code = "missing-argument"
	Duplicate       Code = "duplicate"
	OverrideMissing Code = "override-missing"
	OverrideIgnored Code = "override-ignored"
	LayerReplaced   Code = "layer-replaced"
	Cycle           Code = "cycle"
	Reference       Code = "reference"
	Evaluation      Code = "evaluation"
	WrongType       Code = "wrong-type"
	Sensitive       Code = "sensitive"
	RequiredVersion Code = "required-version"
	VariableMissing Code = "variable-missing"
	VariableInvalid Code = "variable-invalid"
	VariableUnknown Code = "variable-unknown"
	DefaultChoice   Code = "default-choice"
	NullFact        Code = "null-fact"
	NoSite          Code = "no-site"
	SiteSignature   Code = "site-signature"
	SiteDelivery    Code = "site-delivery"

	// Errors from stages.
	LabelInvalid   Code = "label-invalid"
	LabelForbidden Code = "label-forbidden"
	LabelShared    Code = "label-shared"
	TaintInvalid   Code = "taint-invalid"
	StartupTaint   Code = "startup-taint"
	Conflict       Code = "conflict"
	RemovalRefused Code = "removal-refused"
	BaseReplaced   Code = "base-replaced"
	ReserveRefused Code = "reserve-refused"
	PathInvalid    Code = "path-invalid"
	SystemFile     Code = "system-file"
	FlagsInvalid   Code = "flags-invalid"
	ConfigInvalid  Code = "kubelet-config"
	Precondition   Code = "precondition"
	KubeletFlag    Code = "kubelet-flag"
	KubeletGate    Code = "kubelet-gate"
	KubeletMachine Code = "kubelet-machine"
	// RuntimeConfig is for files that the container runtime refuses, or was not asked about.
	RuntimeConfig Code = "runtime-config"
	// KubeletHeld is for a hold of the site that is true.
	KubeletHeld Code = "kubelet-held"
	// KubeletDeprecated is for settings that the installed kubelet still accepts.
	KubeletDeprecated Code = "kubelet-deprecated"
	// DeclaredFeatures is for feature gates that change where pods are placed.
	DeclaredFeatures Code = "declared-features"
	NodeName         Code = "node-name"
	NodeNameTaken    Code = "node-name-taken"
	Identity         Code = "identity"

	// Failures of inputs: cluster, files, hardware, detectors.
	CredentialMissing  Code = "credential"
	ClusterUnreachable Code = "cluster-unreachable"
	ClusterUntrusted   Code = "cluster-untrusted"
	// ClusterCA is for a change of the CAs that the node trusts.
	ClusterCA        Code = "cluster-ca"
	ClusterDenied    Code = "cluster-denied"
	ClusterUnusable  Code = "cluster-unusable"
	Registry         Code = "registry"
	RegistryDenied   Code = "registry-denied"
	FileMissing      Code = "file-missing"
	FileLate         Code = "file-late"
	FileUnusable     Code = "file-unusable"
	NoAnswer         Code = "file-no-answer"
	HardwareFailed   Code = "hardware"
	HardwareDegraded Code = "hardware-degraded"
	DetectorFailed   Code = "detector"
	DetectorDegraded Code = "detector-degraded"
	DetectorWarning  Code = "detector-warning"
	DetectorUnknown  Code = "detector-unknown"
	StageFailed      Code = "stage-failed"
	Unread           Code = "unread"
	Stale            Code = "stale"
	RecordingInvalid Code = "recording"

	// Failures of writing and activation.
	CannotWrite Code = "cannot-write"
	NeedsPerson Code = "recovery"
	Interrupted Code = "interrupted"
	RolledBack  Code = "rolled-back"
	// KubeletUnhealthy is for a kubelet that does not run well on a generation that was good.
	KubeletUnhealthy Code = "kubelet-unhealthy"
	// OtherMachine is for a Node that another machine reports to under the same name.
	OtherMachine  Code = "node-is-another-machine"
	RollbackFails Code = "rollback-failed"
	Systemd       Code = "systemd"
	Usage         Code = "usage"
	Internal      Code = "internal"
	Locked        Code = "locked"
	NewerPrelet   Code = "newer-prelet"
	Held          Code = "held"
	Unjudged      Code = "unjudged"
	MountMissing  Code = "mount-missing"
	Drift         Code = "drift"
	NodeDrift     Code = "node-drift"
	ConfigDrift   Code = "config-drift"
	// ServingCertificate is for a kubelet whose API has no certificate yet.
	ServingCertificate Code = "serving-certificate"
	NodeCondition      Code = "node-condition"
	// Adopted was reported by versions before 0.2.0, and stays in their status files.
	Adopted Code = "adopted"
	// SetAside is for a state folder that could not be trusted.
	SetAside    Code = "set-aside"
	UnitMissing Code = "unit-missing"
	UnitRefuses Code = "unit-refuses"
	UnitFailed  Code = "unit-failed"
	TestFailed  Code = "test-failed"
)

// exitStatuses contains the codes whose exit status is not 10 (the site is invalid).
var exitStatuses = map[Code]int{
	TestFailed:         3,
	CredentialMissing:  11,
	ClusterUnreachable: 20,
	Registry:           20,
	ClusterUntrusted:   21,
	ClusterDenied:      22,
	RegistryDenied:     22,
	NodeNameTaken:      22,
	ClusterUnusable:    23,
	FileLate:           30,
	SiteDelivery:       30,
	NoAnswer:           30,
	HardwareFailed:     30,
	ReserveRefused:     30,
	NullFact:           30,
	Precondition:       30,
	KubeletMachine:     30,
	KubeletHeld:        30,
	DetectorFailed:     31,
	CannotWrite:        40,
	NewerPrelet:        40,
	NeedsPerson:        41,
	Interrupted:        42,
	RolledBack:         50,
	KubeletUnhealthy:   50,
	OtherMachine:       50,
	RollbackFails:      51,
	Systemd:            52,
	Usage:              64,
	RecordingInvalid:   64,
	Internal:           70,
	Locked:             75,
}

// IsRetried reports whether prelet.service is started again after a boot that ended with this code.
func (c Code) IsRetried() bool {
	return slices.ContainsFunc(ExitStatuses(), func(s ExitStatus) bool {
		return s.Status == c.Exit() && (s.Again == AgainYes || s.Again == AgainAtBoot)
	})
}

// IsLasting reports whether a failure with this code persists when the kubelet is healthy, because the site is still
// wrong. A healthy kubelet ends its own failures and interruptions.
func (c Code) IsLasting() bool {
	switch c {
	case "",
		NeedsPerson,
		Interrupted,
		RolledBack,
		KubeletUnhealthy,
		OtherMachine,
		RollbackFails,
		Systemd,
		Usage,
		RecordingInvalid,
		TestFailed,
		Locked:
		return false
	}

	return true
}

// Lower returns the failure with the lower exit status, a where they are equal; "" is not a failure. Exit statuses are
// numbered from the site outwards (10 the site, 20 the cluster, 30 the machine, 40 the disk), and a mistake in the site
// is fixed first.
func Lower(a, b Code) Code {
	if a == "" || b != "" && b.Exit() < a.Exit() {
		return b
	}

	return a
}

// Higher returns the code with the higher exit status, a where they are equal. "" is lower than any code.
func Higher(a, b Code) Code {
	if b.Exit() > a.Exit() {
		return b
	}

	return a
}

// Exit returns the process's exit status for a code: 0 for "", which is not an error.
func (c Code) Exit() int {
	if c == "" {
		return 0
	}

	if n, ok := exitStatuses[c]; ok {
		return n
	}

	return 10
}

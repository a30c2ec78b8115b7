package app

import "github.com/prelet/prelet/internal/kubelet/known"

// KnownKubelets returns the oldest and the newest minor version of the kubelet that prelet has tables of: 1.N.
func KnownKubelets() (oldest, newest int) { return known.Range() }

// KnownFlags returns the flags of the newest kubelet that prelet knows, without dashes.
func KnownFlags() []string {
	_, newest := known.Range()

	return known.Flags(newest)
}

// KnownFields returns the fields of the configuration of the newest kubelet that prelet knows.
func KnownFields() []string {
	_, newest := known.Range()

	return known.Fields(newest)
}

package sdk

import "github.com/prelet/prelet/plugins/contract"

// LabelValue makes a label's value out of any text: what a label cannot hold becomes one dash, at most 63 bytes, letters
// or digits at the ends. "NVIDIA H100 80GB HBM3" → "NVIDIA-H100-80GB-HBM3". Case is kept.
func LabelValue(s string) string { return contract.LabelValue(s) }

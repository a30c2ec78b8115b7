// Package fleet groups the machines of a fleet by the effect of a site on them, and merges the groups of several
// reports. It only computes: internal/lab/fleets makes the plans, and internal/lab/printer prints a report.
//
// Machines are in one group when the set of (path, action, diff) and the codes of the diagnostics are equal after the
// machine's own values (node name, addresses, serial numbers, GUIDs) are replaced by names. The diff of the kubelet's
// flags and of its configuration is that of labels, taints, flags and fields, and the diff of another file is its
// changed lines: an unchanged label that differs between racks does not split a group.
package fleet

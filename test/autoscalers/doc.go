// Package autoscalers reads `prelet plan -o capacity` by the types of Cluster API and Karpenter, and compares the
// allocatable resources that these compute with the Nodes of `prelet plan -o nodes`. It also decodes the recipes for
// them and the DaemonSet that records a fleet, and does with these what they would do. make e2e-autoscalers runs it.
package autoscalers

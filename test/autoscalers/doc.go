// Package autoscalers reads `prelet plan -o capacity` by the types of Cluster API and Karpenter, and compares the
// allocatable resources that these compute with the Nodes of `prelet plan -o nodes`. make e2e-autoscalers runs it.
package autoscalers

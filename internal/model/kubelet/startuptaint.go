package kubelet

import "strings"

// StartupTaint is a well-known taint that a node registers with and that another program removes when the node may take
// pods. prelet sets it only by the registration: to put it back would shut a node that its owner has opened. The site
// declares any other key with startup.
type StartupTaint struct {
	Key      string // a prefix if it ends with /
	Effect   string // the only effect that the owner knows; "" for any
	RemoveBy string // the program that removes it, and when
}

// startupTaints lists the taints of programs that many clusters run. Sources: karpenter.sh/docs/concepts/nodepools;
// Cilium's documentation, "Considerations on node pool taints"; node-readiness-controller, concepts.md; cluster
// autoscaler, FAQ "--startup-taint"; Kubernetes, "Well-Known Labels, Annotations and Taints".
var startupTaints = []StartupTaint{
	{"karpenter.sh/unregistered", "NoExecute", "Karpenter removes it when it has registered the node"},
	{"node.cilium.io/agent-not-ready", "", "the Cilium operator removes it when the agent runs on the node"},
	{
		"readiness.k8s.io/", "",
		"node-readiness-controller removes it when the conditions of a NodeReadinessRule hold, and adds it again in " +
			"continuous mode",
	},
	{
		"startup-taint.cluster-autoscaler.kubernetes.io/", "",
		"the program that the node waits for removes it; the cluster autoscaler ignores it",
	},
	{ // the name of the same prefix before cluster autoscaler 1.29, which it still accepts
		"ignore-taint.cluster-autoscaler.kubernetes.io/", "",
		"the program that the node waits for removes it (as the Cilium operator, where agent-not-ready-taint-key is " +
			"set to such a key); the cluster autoscaler ignores it",
	},
	{"ebs.csi.aws.com/agent-not-ready", "", "the EBS CSI driver removes it when it runs on the node"},
	{"efs.csi.aws.com/agent-not-ready", "", "the EFS CSI driver removes it when it runs on the node"},
	{"nvsentinel.nvidia.com/", "", "NVSentinel removes it when the node has passed its validation"},
	{"skyhook.nvidia.com", "", "the Skyhook operator removes it when its packages are installed on the node"},
	{
		"node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule",
		"the cloud controller manager removes it when it has initialized the node",
	},
	{"node.kubernetes.io/not-ready", "", "the node lifecycle controller removes it when the node is ready"},
	{"node.kubernetes.io/unreachable", "", "the node lifecycle controller removes it while the node reports"},
	{
		"node.kubernetes.io/unschedulable", "NoSchedule",
		"the node lifecycle controller removes it unless the node is cordoned",
	},
	{"node.kubernetes.io/memory-pressure", "NoSchedule", byCondition},
	{"node.kubernetes.io/disk-pressure", "NoSchedule", byCondition},
	{"node.kubernetes.io/pid-pressure", "NoSchedule", byCondition},
	{"node.kubernetes.io/network-unavailable", "NoSchedule", byCondition},
}

// byCondition names the program that removes a taint that Kubernetes sets by a condition of the Node. Source:
// pkg/controller/nodelifecycle/node_lifecycle_controller.go, doNoScheduleTaintingPass.
const byCondition = "the node lifecycle controller removes it unless the node has that condition"

func FindStartupTaint(key string) (found StartupTaint, ok bool) {
	for _, s := range startupTaints {
		isPrefix := strings.HasSuffix(s.Key, "/") && strings.HasPrefix(key, s.Key)
		if isPrefix || key == s.Key {
			return s, true
		}
	}

	return StartupTaint{}, false
}

// IsStartup reports whether a taint has the key of a startup taint.
func (t Taint) IsStartup() bool {
	_, ok := FindStartupTaint(t.Key)

	return ok
}

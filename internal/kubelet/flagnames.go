package kubelet

// Flags that pflag parses differently: a flag in neither list takes a value, and the last one of a name counts.
// Sources, read on 2026-11-20: Kubernetes v1.36.3 cmd/kubelet/app/options (options.go, globalflags*.go) and
// component-base; for removed flags, the same files and pkg/kubelet/config at v1.11.10, v1.15.12, v1.18.20 and
// v1.23.17, and the flags of klog v1 and v2.

// isBoolFlag reports whether a flag is a switch: pflag reads `--flag word` as a flag and a stray word.
func isBoolFlag(name string) bool {
	switch name {
	case "help", "h", "version", // version is true, false or raw, and true without a value
		"anonymous-auth", "authentication-token-webhook", "cgroups-per-qos", "contention-profiling",
		"cpu-cfs-quota", "enable-controller-attach-detach", "enable-debugging-handlers", "enable-server",
		"exit-on-lock-contention", "experimental-allocatable-ignore-eviction", "fail-cgroupv1",
		"fail-swap-on", "kernel-memcg-notification", "local-storage-capacity-isolation",
		"make-iptables-util-chains", "protect-kernel-defaults", "register-node", "rotate-certificates",
		"rotate-server-certificates", "runonce", "seccomp-default", "serialize-image-pulls", "windows-service",
		// cadvisor's
		"docker-only", "docker-tls", "enable-load-reader", "log-cadvisor-usage", "storage-driver-secure",
		// of logging
		"experimental-logging-sanitization", "log-json-split-stream", "log-text-split-stream",
		// klog's and glog's, removed in 1.26
		"add-dir-header", "alsologtostderr", "logtostderr", "one-output", "skip-headers", "skip-log-headers",
		// removed
		"allow-privileged", "containerized", "docker-disable-shared-pid", "enable-cadvisor-json-endpoints",
		"experimental-check-node-capabilities-before-mount", "experimental-dockershim",
		"experimental-fail-swap-on", "experimental-kernel-memcg-notification", "keep-terminated-pod-volumes",
		"really-crash-for-testing", "redirect-container-streaming", "register-schedulable":
		return true
	}
	return false
}

// isListFlag reports whether the values of a repeated flag are added up to one comma-separated list. (Of
// register-with-taints the last one counts. cpu-manager-policy-options adds up too, but has one option each time, so
// Lookup and Set use the last one.)
func isListFlag(name string) bool {
	switch name {
	case "node-labels", "feature-gates", "topology-manager-policy-options", "qos-reserved",
		"eviction-hard", "eviction-soft", "eviction-soft-grace-period", "eviction-minimum-reclaim",
		"system-reserved", "kube-reserved", "manifest-url-header", "allowed-unsafe-sysctls", "cluster-dns",
		"enforce-node-allocatable", "tls-cipher-suites",
		"host-ipc-sources", "host-network-sources", "host-pid-sources":
		return true
	}
	return false
}

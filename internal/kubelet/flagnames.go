package kubelet

// What the kubelet's parser (pflag) must know of a flag to read a command line, for flags that behave otherwise
// than most. Sources, read on 2026-11-20: Kubernetes v1.36.3 cmd/kubelet/app/options (options.go,
// globalflags*.go) and component-base; for flags that are gone, the same files and
// pkg/kubelet/config at v1.11.10, v1.15.12, v1.18.20 and v1.23.17, and the flags of klog v1 and v2.
// A flag that stands in neither list takes a value, and the last of several counts.

// isBoolFlag says whether a flag takes no word after it: for pflag `--flag word` is then a flag and a stray word.
func isBoolFlag(name string) bool {
	switch name {
	case "help", "h", "version", // version is yes, no or raw, and yes where it stands alone
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
		// klog's and glog's, gone in 1.26
		"add-dir-header", "alsologtostderr", "logtostderr", "one-output", "skip-headers", "skip-log-headers",
		// gone with time
		"allow-privileged", "containerized", "docker-disable-shared-pid", "enable-cadvisor-json-endpoints",
		"experimental-check-node-capabilities-before-mount", "experimental-dockershim",
		"experimental-fail-swap-on", "experimental-kernel-memcg-notification", "keep-terminated-pod-volumes",
		"really-crash-for-testing", "redirect-container-streaming", "register-schedulable":
		return true
	}
	return false
}

// isListFlag says whether a flag that is given again adds to what it said before, so that several are one
// comma-separated list. (For register-with-taints the last one counts. cpu-manager-policy-options adds up too, but
// has one option each time: of that flag the last one is what Lookup and Set are about.)
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

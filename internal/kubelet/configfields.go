package kubelet

// fieldType is a coarse type of a field, what a JSON decoder would refuse and not more.
type fieldType byte

const (
	typeUnknown fieldType = iota
	typeString
	typeBool
	typeInt32
	typeInt64
	typeUint32
	typeNumber
	typeDuration      // a string such as 1m30s
	typeDurationOrInt // the same, or nanoseconds
	typeQuantity      // a string or number such as 100Mi
	typeObject
	typeObjectList
	typeStrings     // an object of strings
	typeBools       // an object of booleans
	typeQuantities  // an object of quantities
	typeStringLists // an object of lists of strings
	typeStringList
	typeIntList
)

// configFields are the fields of KubeletConfiguration v1beta1 by type; a.b is a field of an object, a[].b one of
// an object in a list. From k8s.io/kubelet v0.36.3 config/v1beta1/types.go, with logging and tracing from
// k8s.io/component-base v0.36.3, read on 2026-11-20. A newer kubelet may know more, an older one less: an unknown
// name is a warning, never an error.
func configFields() map[string]fieldType {
	fields := map[string]fieldType{"apiVersion": typeString, "kind": typeString}
	for t, names := range map[fieldType][]string{
		typeString: {
			"staticPodPath", "podLogsDir", "staticPodURL", "address", "tlsCertFile", "tlsPrivateKeyFile",
			"tlsMinVersion", "authentication.x509.clientCAFile", "authorization.mode",
			"imagePullCredentialsVerificationPolicy", "healthzBindAddress", "clusterDomain", "kubeletCgroups",
			"systemCgroups", "cgroupRoot", "cgroupDriver", "cpuManagerPolicy", "memoryManagerPolicy",
			"topologyManagerPolicy", "topologyManagerScope", "hairpinMode", "podCIDR", "resolvConf",
			"contentType", "memorySwap.swapBehavior", "containerLogMaxSize",
			"configMapAndSecretChangeDetectionStrategy", "reservedSystemCPUs", "showHiddenMetricsForVersion",
			"systemReservedCgroup", "kubeReservedCgroup", "volumePluginDir", "providerID", "logging.format",
			"logging.vmodule[].filePattern", "memoryReservationPolicy", "registerWithTaints[].key",
			"registerWithTaints[].value", "registerWithTaints[].effect", "registerWithTaints[].timeAdded",
			"tracing.endpoint", "containerRuntimeEndpoint", "imageServiceEndpoint",
		},
		typeBool: {
			"enableServer", "rotateCertificates", "serverTLSBootstrap", "authentication.webhook.enabled",
			"authentication.anonymous.enabled", "enableDebuggingHandlers", "enableContentionProfiling",
			"cgroupsPerQOS", "singleProcessOOMKill", "runOnce", "cpuCFSQuota", "serializeImagePulls",
			"mergeDefaultEvictionSettings", "enableControllerAttachDetach", "protectKernelDefaults",
			"makeIPTablesUtilChains", "failSwapOn", "kernelMemcgNotification", "logging.options.text.splitStream",
			"logging.options.json.splitStream", "enableSystemLogHandler", "enableSystemLogQuery",
			"enableProfilingHandler", "enableDebugFlagsHandler", "seccompDefault", "registerNode",
			"localStorageCapacityIsolation", "failCgroupV1",
		},
		typeInt32: {
			"port", "readOnlyPort", "registryPullQPS", "registryBurst", "eventRecordQPS", "eventBurst",
			"healthzPort", "oomScoreAdj", "nodeLeaseDurationSeconds", "imageGCHighThresholdPercent",
			"imageGCLowThresholdPercent", "maxPods", "nodeStatusMaxImages", "kubeAPIQPS", "kubeAPIBurst",
			"maxParallelImagePulls", "evictionMaxPodGracePeriod", "podsPerCore", "iptablesMasqueradeBit",
			"iptablesDropBit", "containerLogMaxFiles", "containerLogMaxWorkers",
			"shutdownGracePeriodByPodPriority[].priority", "reservedMemory[].numaNode",
			"tracing.samplingRatePerMillion",
		},
		typeInt64: {
			"podPidsLimit", "maxOpenFiles", "shutdownGracePeriodByPodPriority[].shutdownGracePeriodSeconds",
			"userNamespaces.idsPerPod",
		},
		typeUint32: {
			"logging.verbosity", "logging.vmodule[].verbosity",
		},
		typeNumber: {
			"memoryThrottlingFactor",
		},
		typeDuration: {
			"syncFrequency", "fileCheckFrequency", "httpCheckFrequency", "authentication.webhook.cacheTTL",
			"authorization.webhook.cacheAuthorizedTTL", "authorization.webhook.cacheUnauthorizedTTL",
			"streamingConnectionIdleTimeout", "nodeStatusUpdateFrequency", "nodeStatusReportFrequency",
			"imageMinimumGCAge", "imageMaximumGCAge", "volumeStatsAggPeriod", "cpuManagerReconcilePeriod",
			"runtimeRequestTimeout", "cpuCFSQuotaPeriod", "evictionPressureTransitionPeriod",
			"containerLogMonitorInterval", "shutdownGracePeriod", "shutdownGracePeriodCriticalPods",
			"crashLoopBackOff.maxContainerRestartPeriod",
		},
		typeDurationOrInt: {
			"logging.flushFrequency",
		},
		typeQuantity: {
			"logging.options.text.infoBufferSize", "logging.options.json.infoBufferSize",
		},
		typeObject: {
			"authentication", "authentication.x509", "authentication.webhook", "authentication.anonymous",
			"authorization", "authorization.webhook", "memorySwap", "logging", "logging.options",
			"logging.options.text", "logging.options.json", "crashLoopBackOff", "tracing", "userNamespaces",
		},
		typeObjectList: {
			"logging.vmodule", "shutdownGracePeriodByPodPriority", "reservedMemory", "registerWithTaints",
		},
		typeStrings: {
			"cpuManagerPolicyOptions", "topologyManagerPolicyOptions", "qosReserved", "evictionHard",
			"evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim", "systemReserved", "kubeReserved",
		},
		typeBools: {
			"featureGates",
		},
		typeQuantities: {
			"reservedMemory[].limits",
		},
		typeStringLists: {
			"staticPodURLHeader",
		},
		typeStringList: {
			"tlsCipherSuites", "preloadedImagesVerificationAllowlist", "clusterDNS", "enforceNodeAllocatable",
			"allowedUnsafeSysctls",
		},
		typeIntList: {
			"tlsCurvePreferences",
		},
	} {
		for _, name := range names {
			fields[name] = t
		}
	}
	return fields
}

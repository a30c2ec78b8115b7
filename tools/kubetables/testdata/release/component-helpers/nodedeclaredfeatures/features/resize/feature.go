package resize

const InitGate = "InitResize"

var (
	Pod  = &pod{}
	Init = &initContainers{}
)

type (
	pod            struct{}
	initContainers struct{}
)

func (f *pod) Name() string { return "PodResize" }
func (f *pod) Requirements() *types.FeatureRequirements {
	return &types.FeatureRequirements{
		EnabledFeatureGates:     []string{"A", "B"},
		RequiredRuntimeFeatures: &types.RuntimeFeatures{MountOptions: true},
	}
}
func (f *pod) MaxVersion() *version.Version { return nil }

func (f *initContainers) Name() string { return InitGate }
func (f *initContainers) Requirements() *types.FeatureRequirements {
	return &types.FeatureRequirements{EnabledFeatureGates: []string{InitGate}}
}
func (f *initContainers) MaxVersion() *version.Version { return nil }

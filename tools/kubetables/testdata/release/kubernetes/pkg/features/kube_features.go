package features

import (
	genericfeatures "k8s.io/apiserver/pkg/features"
	"k8s.io/component-base/featuregate"
)

const (
	Swap       featuregate.Feature = "NodeSwap"
	Late       featuregate.Feature = "Late"
	Log        featuregate.Feature = "Log"
	logDefault                     = true
)

var gates = map[featuregate.Feature]featuregate.VersionedSpecs{
	Swap: {
		{Version: version.MustParse("1.22"), Default: false, PreRelease: featuregate.Alpha},
		{Version: version.MustParse("1.30"), Default: false, PreRelease: featuregate.Beta},
		{
			Version:                 version.MustParse("1.30"),
			Default:                 true,
			PreRelease:              featuregate.Beta,
			MinCompatibilityVersion: version.MustParse("1.35"),
		},
		{
			Version:                 version.MustParse("1.30"),
			Default:                 false,
			PreRelease:              featuregate.Beta,
			MinCompatibilityVersion: version.MustParse("1.36"),
		},
		{
			Version:       version.MustParse("1.37"),
			Default:       true,
			PreRelease:    featuregate.GA,
			LockToDefault: true,
		},
	},
	Late: {{
		Version:    version.MustParse("1.38"),
		Default:    false,
		PreRelease: featuregate.Alpha,
	}},
}

var old = map[featuregate.Feature]featuregate.FeatureSpec{
	Log:                    {Default: logDefault, PreRelease: featuregate.Beta},
	genericfeatures.Served: {Default: true, PreRelease: featuregate.GA, LockToDefault: true},
}

var needs = map[featuregate.Feature][]featuregate.Feature{
	Swap: {},
	Log:  {genericfeatures.Served, featuregate.Feature(Late)},
}

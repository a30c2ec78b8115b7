package features

import (
	"k8s.io/component-helpers/nodedeclaredfeatures/features/resize"
	"k8s.io/component-helpers/nodedeclaredfeatures/types"
)

var AllFeatures = []types.Feature{resize.Pod, resize.Init}

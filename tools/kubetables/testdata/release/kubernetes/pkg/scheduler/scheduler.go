package scheduler

import (
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
)

func Run(needs map[featuregate.Feature]bool, gate featuregate.Feature) bool {
	return needs[features.Log]
}

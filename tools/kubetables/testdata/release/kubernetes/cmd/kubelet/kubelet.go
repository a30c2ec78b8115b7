package main

import (
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
)

var needs = map[featuregate.Feature]bool{features.Late: true}

func main() {
	scheduler.Run(needs, features.Swap)
}

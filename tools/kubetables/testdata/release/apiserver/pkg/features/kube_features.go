package features

import "k8s.io/component-base/featuregate"

const Served featuregate.Feature = "ServedByName"

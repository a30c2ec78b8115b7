package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
)

type Mode string

const (
	Fast Mode = "Fast"
	Slow Mode = "Slow"
)

type KubeletConfiguration struct {
	metav1.TypeMeta `json:",inline"`
	MaxPods         int32                        `json:"maxPods,omitempty"`
	Mode            Mode                         `json:"mode,omitempty"`
	Sync            metav1.Duration              `json:"syncFrequency,omitempty"`
	Auth            Auth                         `json:"authentication"`
	Reserved        map[string]string            `json:"kubeReserved,omitempty"`
	Memory          []Reservation                `json:"reservedMemory,omitempty"`
	Logging         logsapi.LoggingConfiguration `json:"logging,omitempty"`
	Fails           *bool                        `json:"failCgroupV1,omitempty"`
	Share           *float64                     `json:"share,omitempty"`
	// words are not said.
	// Deprecated: no longer has any
	// effect. Words were said until 1.35.
	Words string `json:"words,omitempty"`
}

type Auth struct {
	Webhook Webhook `json:"webhook"`
}

type Webhook struct {
	// Deprecated: it is always two minutes.
	CacheTTL metav1.Duration `json:"cacheTTL"`
}

type Reservation struct {
	NumaNode int32 `json:"numaNode"`
}

package v1beta1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
)

const mode = kubelet.Fast

func SetDefaults_KubeletConfiguration(obj *kubelet.KubeletConfiguration) {
	if obj.MaxPods == 0 {
		obj.MaxPods = ptr.To[int32](110)
	}
	if obj.Mode == "" {
		obj.Mode = mode
	}
	if obj.Sync == zero {
		obj.Sync = metav1.Duration{Duration: 2 * time.Minute}
	}
	if obj.Auth.Webhook.CacheTTL == zero {
		if obj.Sync == zero {
			obj.Auth.Webhook.CacheTTL = obj.Sync
		}
	}
	if obj.Fails == nil {
		obj.Fails = ptr.To(features.Enabled(features.X))
	}
	if obj.Share == nil {
		obj.Share = ptr.To(0.8)
	}
	if obj.Words == "" {
		obj.Words = "two words"
	}
}

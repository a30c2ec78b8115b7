package rules

import (
	"fmt"
	"testing"

	"github.com/prelet/prelet/internal/model/kubelet"
)

// The kubelet drops unknown fields from objects, and from those in a list. It resets splitStream of its file.
func TestUnknownFieldsAreDropped(t *testing.T) {
	c, err := kubelet.ParseConfig("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" +
		"logging: {no: 1, verbosity: 2, options: {text: {splitStream: true}}}\nshutdownGracePeriodByPodPriority: [{effect: NoSchedule, priority: 5}]\n")
	must(t, err)

	got := Effective(Subject{Config: c, Version: "1.37"})
	for field, want := range map[string]string{
		"logging": "map[options:map[text:map[]] verbosity:2]", "shutdownGracePeriodByPodPriority": "[map[priority:5]]",
	} {
		if fmt.Sprint(got[field]) != want {
			t.Errorf("%s: got %v; want %s", field, got[field], want)
		}
	}
}

// An empty address as a flag leaves the value of an earlier flag or of the file.
func TestEmptyAddressSetsNothing(t *testing.T) {
	got := Effective(Subject{Version: "1.37", Flags: []kubelet.Use{
		{Name: "healthz-bind-address", Value: "10.0.0.5"},
		{Name: "healthz-bind-address"},
	}})
	if got["healthzBindAddress"] != "10.0.0.5" {
		t.Errorf("healthzBindAddress: got %v, want 10.0.0.5", got["healthzBindAddress"])
	}
}

package planning

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/insight/fleet"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/world"
)

// TestFixSite rewrites the stage write of a site whose kubelets go from 1.32 to 1.37.
func TestFixSite(t *testing.T) {
	for _, c := range []struct{ name, items, before, after string }{
		{"a removed flag with its comment", "flag/pod-infra-container-image", `  kubelet_flags {
    flags = {
      # of the image
      "pod-infra-container-image" = "a" # old
      "v"                         = 2   # quiet
    }
  }
`, `  kubelet_flags {
    flags = {
      # of the image
      # "pod-infra-container-image" = "a" # old
      "v" = 2 # quiet
    }
  }
`},
		{"a comment in the value", "flag/max-pods", `  kubelet_flags {
    flags = {
      max-pods = ( # network
        64
      )
      v = 2
    }
  }
`, ""},
		{"a comment before the name", "flag/max-pods", `  kubelet_flags {
    flags = {
      /* network */ max-pods = 64

      v = 2
    }
  }
`, ""},
		{"a comment after the comma", "flag/max-pods", `  kubelet_flags {
    flags = {
      max-pods = 64, /* network */

      v = 2
    }
  }
`, ""},
		{"a comment after the block", "flag/max-pods", `  kubelet_flags {
    flags = {
      max-pods = 64
    }
  } # of flags
`, `  kubelet_flags {
    flags = {
    }
  } # of flags
  kubelet_config {
    patch = {
      maxPods = 64
    }
  }
`},
		{"loose: nested at the first column", "flag/max-pods", `  kubelet_config {
    patch = { logging = {
vmodule = []
} }
  }
  kubelet_flags {
    flags = { max-pods = 64 }
  }
`, ""},
		{"loose: spaces", "flag/max-pods config/featureGates.CPUManager", `     kubelet_config { patch = { podsPerCore = 3 } }
  kubelet_flags {
    flags = {   max-pods = 64 }
  }
`, ""},
		{"loose: line ends of Windows", "flag/max-pods", `  kubelet_flags {
    flags = { max-pods = 64 }
  }
` + "\r\n", ""},
		{"a block on one line", "flag/max-pods", `  kubelet_config { patch = { podsPerCore = 3 } }
  kubelet_flags {
    flags = {
      # the network
      max-pods = 64 # of 2025
      v        = 2
    }
  }
`, `  kubelet_config { patch = {
    podsPerCore = 3
    maxPods     = 64 # of 2025
  } }
  kubelet_flags {
    flags = {
      # the network
      # max-pods = 64 # of 2025
      v = 2
    }
  }
`},
		{"on one line, the last", "flag/pod-infra-container-image", `  kubelet_flags {
    flags = { v = 2, pod-infra-container-image = "a" }
  }
`, `  kubelet_flags {
    flags = { v = 2 }
  }
`},
		{"on one line, the first", "flag/pod-infra-container-image", `  kubelet_flags {
    flags = { pod_infra_container_image = "a", v = 2 }
  }
`, `  kubelet_flags {
    flags = { v = 2 }
  }
`},
		{"the only one", "flag/pod-infra-container-image", `  kubelet_flags {
    flags = { pod-infra-container-image = "a" }
  }
`, `  kubelet_flags {
    flags = {}
  }
`},
		{"moved to a new block", "flag/max-pods", `  kubelet_flags {
    flags = {
      max-pods = 64 # the network
    }
  }
`, `  kubelet_flags {
    flags = {
    }
  }
  kubelet_config {
    patch = {
      maxPods = 64 # the network
    }
  }
`},
		{"moved to a new patch", "flag/serialize-image-pulls flag/max-pods", `  kubelet_config { layout = "drop-in" }
  kubelet_flags {
    flags = {
      max-pods              = "64",
      serialize-image-pulls = false,
    }
  }
`, `  kubelet_config {
    layout = "drop-in"
    patch = {
      serializeImagePulls = false
      maxPods             = 64
    }
  }
  kubelet_flags {
    flags = {
    }
  }
`},
		{"moved into objects", "flag/anonymous-auth flag/authentication-token-webhook", `  kubelet_config {
    patch = { maxPods = 20 }
  }
  kubelet_flags {
    flags = { anonymous-auth = false, authentication-token-webhook = true }
  }
`, `  kubelet_config {
    patch = {
      maxPods = 20
      authentication = {
        anonymous = { enabled = false }
        webhook   = { enabled = true }
      }
    }
  }
  kubelet_flags {
    flags = {}
  }
`},
		{"a gate that is gone", "config/featureGates.CPUManager", `  kubelet_config {
    patch = { featureGates = { CPUManager = true, KubeletPodResourcesGet = true } }
  }
`, `  kubelet_config {
    patch = { featureGates = { KubeletPodResourcesGet = true } }
  }
`},
		{"a gate that is gone, with a comment", "config/featureGates.CPUManager", `  kubelet_config {
    patch = {
      featureGates = {
        # for latency
        CPUManager             = true
        KubeletPodResourcesGet = true
      }
    }
  }
`, `  kubelet_config {
    patch = {
      featureGates = {
        # for latency
        # CPUManager             = true
        KubeletPodResourcesGet = true
      }
    }
  }
`},
		{"moved behind an inner object", "flag/max-pods", `  kubelet_config {
    patch = { evictionHard = {
      "memory.available" = "100Mi"
    } }
  }
  kubelet_flags {
    flags = {
      max-pods = 64
    }
  }
`, `  kubelet_config {
    patch = {
      evictionHard = {
        "memory.available" = "100Mi"
      }
      maxPods = 64
    }
  }
  kubelet_flags {
    flags = {
    }
  }
`},
		{"not a literal", "flag/max-pods flag/pod-infra-container-image", `  kubelet_flags {
    flags = { for name in ["max-pods", "pod-infra-container-image"] : name => "1" }
  }
`, ""},
		{"a variable", "flag/max-pods", `  kubelet_flags {
    flags = { max-pods = var.pods }
  }
`, ""},
		{"merged", "flag/max-pods", `  kubelet_flags {
    flags = merge({ max-pods = 3 }, {})
  }
`, ""},
		{"a field that is set", "flag/max-pods", `  kubelet_config {
    patch = { maxPods = 20 }
  }
  kubelet_flags {
    flags = { max-pods = 64 }
  }
`, ""},
		{"a zero, which a file does not have", "flag/max-pods", `  kubelet_flags {
    flags = { max-pods = 0 }
  }
`, ""},
		{"an object, which a patch merges", "flag/eviction-hard", `  kubelet_flags {
    flags = { eviction-hard = "memory.available<1Gi" }
  }
`, ""},
		{"a block under a condition", "flag/max-pods", `  kubelet_config { when = false }
  kubelet_flags {
    flags = { max-pods = 64 }
  }
`, ""},
		{"of nobody here", "flag/cgroup-driver config/maxPods", `  kubelet_flags {
    flags = { v = 2 }
  }
`, ""},
	} {
		u := fleet.NewUpgrade("0.2.0", "", 37)
		u.From["1.32"] = 1
		for item := range strings.FieldsSeq(c.items) {
			u.Effects = append(u.Effects, fleet.Upgraded{UpgradedItem: fleet.UpgradedItem{Item: item}})
		}
		const before, after = "variable \"pods\" { default = \"3\" }\nstage \"write\" \"kubelet\" {\n", "}\n"
		files := []world.SiteFile{{Name: "site.hcl", Text: before + c.before + after}}
		site, diags := lang.Parse(files, app.SiteOptions("0.2.0"))
		if diags.HasErrors() {
			t.Fatalf("%s: got %v, want a site", c.name, diags)
		}

		want := before + c.after + after
		if c.after == "" {
			want = files[0].Text
		}
		fixed, loose := fixSite(site, u, "0.2.0", nil)
		if got := fixed.Files[0].Text; got != want {
			t.Errorf("%s: (-want +got)\n%s", c.name, cmp.Diff(want, got))
		}
		if isLoose := strings.HasPrefix(c.name, "loose"); loose["site.hcl"] != isLoose {
			t.Errorf("%s: got loose files %v, want site.hcl among them: %v", c.name, loose, isLoose)
		}
	}
}

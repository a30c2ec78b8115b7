package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	config "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	internal "k8s.io/kubernetes/pkg/kubelet/apis/config"
	conversion "k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	"k8s.io/kubernetes/pkg/util/filesystem"
)

// changedByItself are the fields for which /configz does not return the value of the files and the command line,
// because the kubelet has replaced it before.
func changedByItself() []change {
	return []change{
		// cmd/kubelet/app, InitializeTLS: without a certificate it makes one for itself.
		{"tlsCertFile", "the kubelet has signed a certificate for itself", ownCertificate("kubelet.crt")},
		{"tlsPrivateKeyFile", "the kubelet has signed a certificate for itself", ownCertificate("kubelet.key")},
		// pkg/kubelet/apis/config/v1beta1/defaults.go: newer kubelets have no default.
		{"memoryThrottlingFactor", "it is the default of older kubelets", func(want, got any) bool {
			return want == nil && got == 0.9
		}},
	}
}

func ownCertificate(file string) func(any, any) bool {
	return func(want, got any) bool { return want == nil && got == "/var/lib/kubelet/pki/"+file }
}

// change is one of them: why, and what it may have become.
type change struct {
	at, why string
	may     func(want, got any) bool
}

// asWritten compares the configuration that the kubelet says it runs with, with what its files and its command line
// come to: every field, those that are nowhere written included, because the kubelet's own code reads them and adds
// its defaults.
func asWritten(t *testing.T, c *Cluster, n *Node) {
	t.Helper()
	running, err := c.Configz(t.Context(), n)
	must(t, err)
	want, err := n.configuration(t)
	must(t, err)
	older := n.otherKubelet
	fields := 0
	var compare func(at string, want, got any)
	compare = func(at string, w, g any) {
		wm, isObject := w.(map[string]any)
		gm, is := g.(map[string]any)
		if isObject || is {
			keys := maps.Clone(wm)
			if keys == nil {
				keys = map[string]any{}
			}
			maps.Copy(keys, gm)
			for _, k := range slices.Sorted(maps.Keys(keys)) {
				if _, has := gm[k]; !has && older {
					continue // a field, or a default, that came after it
				}
				compare(strings.TrimPrefix(at+"."+k, "."), wm[k], gm[k])
			}
			return
		}
		fields++
		if reflect.DeepEqual(w, g) {
			return
		}
		for _, x := range changedByItself() {
			if x.at == at && x.may(w, g) {
				t.Logf("%s: the kubelet runs with %v, and not %v: %s", at, g, w, x.why)
				return
			}
		}
		t.Errorf("%s: the kubelet runs with %v, and its files and flags say %v", at, g, w)
	}
	compare("", want, map[string]any(running))
	if fields < 90 { // of some 105; an older kubelet has fewer
		t.Errorf("only %d fields compared; want at least 90", fields)
	}
}

// configuration is what the kubelet makes of its command line and the files that it names, as
// cmd/kubelet/app/server.go does in NewKubeletCommand: flags, the file, its defaults, drop-ins, defaults again, flags
// over it all.
func (n *Node) configuration(t *testing.T) (map[string]any, error) {
	t.Helper()
	service, err := n.Service(t.Context())
	if err != nil {
		return nil, err
	}
	line, err := n.Read(fmt.Sprintf("/proc/%d/cmdline", service.PID))
	if err != nil {
		return nil, err
	}
	words := strings.Split(strings.TrimSuffix(line, "\x00"), "\x00")[1:]
	flags := options.NewKubeletFlags()
	kc, err := options.NewKubeletConfiguration()
	if err != nil {
		return nil, err
	}
	if err := parse(words, flags, kc); err != nil {
		return nil, err
	}
	load := func(path string) (configfiles.Loader, error) {
		return configfiles.NewFsLoader(&filesystem.DefaultFs{}, n.Root()+path)
	}
	if flags.KubeletConfigFile != "" {
		loader, err := load(flags.KubeletConfigFile)
		if err != nil {
			return nil, err
		}
		if kc, err = loader.Load(t.Context()); err != nil {
			return nil, err
		}
		if kc.EvictionHard == nil ||
			kc.MergeDefaultEvictionSettings { // loadConfigFile: the defaults depend on the operating system
			all := map[string]string{
				"memory.available":   "100Mi",
				"nodefs.available":   "10%",
				"nodefs.inodesFree":  "5%",
				"imagefs.available":  "15%",
				"imagefs.inodesFree": "5%",
			}
			maps.Copy(all, kc.EvictionHard)
			kc.EvictionHard = all
		}
	}
	versioned := &config.KubeletConfiguration{}
	if dir := flags.KubeletDropinConfigDirectory; dir != "" { // mergeKubeletConfigurations
		if err := conversion.Convert_config_KubeletConfiguration_To_v1beta1_KubeletConfiguration(
			kc,
			versioned,
			nil,
		); err != nil {
			return nil, err
		}
		base, err := json.Marshal(versioned)
		if err != nil {
			return nil, err
		}
		err = filepath.WalkDir(n.Root()+dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(p) != ".conf" {
				return err
			}
			loader, err := load(strings.TrimPrefix(p, n.Root()))
			if err != nil {
				return err
			}
			over, _, err := loader.LoadIntoJSON()
			if err != nil {
				return err
			}
			base, err = jsonpatch.MergePatch(base, over)
			return err
		})
		if err != nil {
			return nil, err
		}
		versioned = &config.KubeletConfiguration{}
		if err := json.Unmarshal(base, versioned); err != nil {
			return nil, err
		}
		conversion.SetDefaults_KubeletConfiguration(versioned)
		kc = &internal.KubeletConfiguration{}
		if err := conversion.Convert_v1beta1_KubeletConfiguration_To_config_KubeletConfiguration(
			versioned,
			kc,
			nil,
		); err != nil {
			return nil, err
		}
	}
	gates := kc.FeatureGates
	if err := parse(words, options.NewKubeletFlags(), kc); err != nil {
		return nil, err
	}
	for k, v := range gates { // kubeletConfigFlagPrecedence
		if _, ok := kc.FeatureGates[k]; !ok {
			kc.FeatureGates[k] = v
		}
	}
	versioned = &config.KubeletConfiguration{}
	if err := conversion.Convert_config_KubeletConfiguration_To_v1beta1_KubeletConfiguration(
		kc,
		versioned,
		nil,
	); err != nil {
		return nil, err
	}
	versioned.SetGroupVersionKind(config.SchemeGroupVersion.WithKind("KubeletConfiguration"))
	text, err := json.Marshal(versioned)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, errors.Join(json.Unmarshal(text, &out))
}

// parse puts a kubelet's command line into what it sets. The flags of its libraries set nothing here.
func parse(words []string, flags *options.KubeletFlags, kc *internal.KubeletConfiguration) error {
	set := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	set.ParseErrorsAllowlist.UnknownFlags = true
	flags.AddFlags(set)
	options.AddKubeletConfigFlags(set, kc)
	return set.Parse(words)
}

package autoscalers

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// recorders are the objects of packaging/fleet/record.
type recorders struct {
	daemonSet appsv1.DaemonSet
	maps      map[string]corev1.ConfigMap // by name
}

// readRecorders returns what `kubectl apply -k` would send for a site, decoded strictly.
func readRecorders(t *testing.T, site string) recorders {
	t.Helper()
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS("../../packaging/fleet/record")))
	write(t, dir+"/site.hcl", site)
	write(t, dir+"/kubelet-config.yaml", string(read(t, "../../examples/objects/kube-system/kubelet-config.yaml")))
	out, err := exec.Command("kubectl", "kustomize", dir).Output()
	if err != nil {
		t.Fatalf("kubectl kustomize: got %v, want no error", err)
	}

	r := recorders{maps: map[string]corev1.ConfigMap{
		"kube-root-ca.crt": {Data: map[string]string{"ca.crt": string(read(t, "../../examples/objects/ca.crt"))}},
	}}
	for _, text := range bytes.Split(out, []byte("\n---\n")) {
		var m corev1.ConfigMap
		var object any = &m
		switch {
		case bytes.Contains(text, []byte("\nkind: Namespace\n")):
			object = &corev1.Namespace{}
		case bytes.Contains(text, []byte("\nkind: DaemonSet\n")):
			object = &r.daemonSet
		}
		if err := yaml.UnmarshalStrict(text, object); err != nil {
			t.Errorf("%s: got %v, want it decoded strictly", text, err)
		}
		r.maps[m.Name] = m
	}

	return r
}

// mount writes the files of a volume into a folder.
func (r recorders) mount(t *testing.T, dir, name string) {
	t.Helper()
	for _, v := range r.daemonSet.Spec.Template.Spec.Volumes {
		switch {
		case v.Name == name && v.ConfigMap != nil:
			for key, text := range r.maps[v.ConfigMap.Name].Data {
				write(t, dir+"/"+key, text)
			}
		case v.Name == name && v.Projected != nil:
			for _, source := range v.Projected.Sources {
				for _, item := range source.ConfigMap.Items {
					write(t, dir+"/"+item.Path, r.maps[source.ConfigMap.Name].Data[item.Key])
				}
			}
		}
	}
}

// record runs the command of the container below dir, in place of the folders that are mounted into it.
func (r recorders) record(t *testing.T, status int, dir string) string {
	t.Helper()
	r.mount(t, dir+"/site", "site")
	r.mount(t, dir+"/objects", "objects")
	script := r.daemonSet.Spec.Template.Spec.InitContainers[0].Args[0]
	for _, path := range []string{"/host", "/site", "/objects"} {
		script = strings.ReplaceAll(script, " "+path, " "+dir+path)
	}

	return shell(t, status, filepath.Dir(prelet(t)), strings.ReplaceAll(script, "/dev/termination-log", dir+"/messages"))
}

// TestRecordersPrivileges: the pods may read the node, and nothing else: no rights in the cluster, no capability, no
// mount that can be written to, no namespace of the node.
func TestRecordersPrivileges(t *testing.T) {
	prelet(t)
	r := readRecorders(t, "")
	spec := r.daemonSet.Spec.Template.Spec
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken || spec.ServiceAccountName != "" {
		t.Errorf("token: got %v of %q, want none", spec.AutomountServiceAccountToken, spec.ServiceAccountName)
	}
	if spec.HostNetwork || spec.HostPID || spec.HostIPC {
		t.Error("namespaces: got one of the node, want none")
	}
	for _, c := range append(spec.InitContainers, spec.Containers...) {
		s := c.SecurityContext
		isLeast := s.Privileged == nil && !*s.AllowPrivilegeEscalation && *s.ReadOnlyRootFilesystem &&
			len(s.Capabilities.Add) == 0 && len(s.Capabilities.Drop) == 1 && s.Capabilities.Drop[0] == "ALL" &&
			s.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault
		if !isLeast {
			t.Errorf("container %s: got %v, want no privileges", c.Name, s)
		}
		for _, m := range c.VolumeMounts {
			isRecursive := m.RecursiveReadOnly != nil && *m.RecursiveReadOnly == corev1.RecursiveReadOnlyIfPossible
			if !m.ReadOnly || m.Name == "host" && !isRecursive {
				t.Errorf("container %s, mount %s: got one that can be written to, want none", c.Name, m.Name)
			}
		}
	}
	if keep := spec.Containers[0]; len(keep.VolumeMounts) > 0 || !*keep.SecurityContext.RunAsNonRoot {
		t.Errorf("container %s: got %v, want no mount and no root", keep.Name, keep)
	}
}

// TestRecorders records a node without prelet, and one that keeps a recording: a fleet that can be planned.
func TestRecorders(t *testing.T) {
	program := prelet(t)
	r := readRecorders(t, string(read(t, "../../examples/minimal/site.hcl")))
	dir := t.TempDir()
	machine, err := filepath.Abs("../../bin/machines/two-sockets")
	must(t, err)
	must(t, os.CopyFS(dir+"/host", os.DirFS(machine)))
	first := r.record(t, 0, dir)
	write(t, dir+"/fleet/n1.prelet", first)

	write(t, dir+"/host/run/prelet/recording.prelet", first+"\n")
	if got := r.record(t, 0, dir); got != first+"\n" {
		t.Errorf("node with a recording: got %d bytes, want its %d", len(got), len(first)+1)
	}
	write(t, dir+"/fleet/n2.prelet", first)

	out := shell(t, 0, filepath.Dir(program), "prelet plan --from "+dir+"/fleet --config ../../examples/minimal")
	if want := "2 machines"; !strings.Contains(out, want) {
		t.Errorf("plan of the fleet: got\n%s\nwant %q in it", out, want)
	}
}

// TestRecordersMessage: a site that cannot be recorded is in the state of the container, which `kubectl describe` shows.
func TestRecordersMessage(t *testing.T) {
	prelet(t)
	dir := t.TempDir()
	must(t, os.MkdirAll(dir+"/host/sys", 0o755))
	readRecorders(t, "stage {").record(t, 10, dir)
	if got, want := string(read(t, dir+"/messages")), "site.hcl:1"; !strings.Contains(got, want) {
		t.Errorf("message: got %q, want %q in it", got, want)
	}
}

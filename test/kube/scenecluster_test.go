package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// cluster [NAME [audit] [--controllers=LIST]]: starts a cluster with the same bootstrap token as the others, $TOKEN.
// The first one is that of the machines; its pin is $PIN, its port $PORT, its folder $DIR, its version $VERSION.
func (s *scene) cmdCluster(args []string) error {
	name := append(args, "")[0]
	o := ClusterOptions{Audit: slices.Contains(args, "audit")}
	for _, word := range args {
		if list, ok := strings.CutPrefix(word, "--controllers="); ok {
			o.Controllers = list
		}
	}
	c := start(s.t, o)
	s.clusters[name] = c
	if s.c != nil {
		return nil
	}
	s.c = c
	pin, err := c.Pin()
	s.ts.Setenv("PIN", pin)
	s.ts.Setenv("TOKEN", c.Token)
	s.ts.Setenv("PORT", strconv.Itoa(c.Port))
	s.ts.Setenv("DIR", c.Dir)
	s.ts.Setenv("VERSION", filepath.Base(c.Kubernetes))
	s.ts.Setenv("BUSYBOX", filepath.Join(c.Cache, "containerd/usr/bin/busybox"))
	s.ts.Setenv("PRELET", c.Prelet)
	s.ts.Setenv("KUBECONFIG", c.Path("super-admin.conf"))
	s.ts.Setenv("PATH", filepath.Dir(c.Prelet)+":"+c.Kubernetes+":"+os.Getenv("PATH"))

	return err
}

// kubectl ARGS…: runs it as cluster-admin. A word *.yaml is a file of the script. `exec kubectl` does the same.
func (s *scene) cmdKubectl(args []string) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for i, word := range args {
		if strings.HasSuffix(word, ".yaml") && !filepath.IsAbs(word) {
			args[i] = filepath.Join(s.t.TempDir(), word)
			must(s.t, os.WriteFile(args[i], []byte(s.text("@"+word)), 0o600))
		}
	}
	environment := []string{"HOME=" + s.c.Dir, "PATH=" + s.ts.Getenv("PATH"), "KUBECONFIG=" + s.ts.Getenv("KUBECONFIG")}
	r, err := command(ctx, environment, append([]string{s.c.of("kubectl")}, args...)...)

	return s.show("0", r, err)
}

// api stop|start: kills the API server, or starts it again.
func (s *scene) cmdAPI(args []string) error {
	if args[0] == "stop" {
		s.c.StopAPIServer()
		return nil
	}

	return s.c.StartAPIServer(s.t.Context())
}

// controllers pause|resume: nothing is signed or approved meanwhile.
func (s *scene) cmdControllers(args []string) error {
	resume := s.c.PauseControllers()
	if args[0] == "resume" {
		resume()
	}

	return nil
}

// token NAME TTL [FLAG…]: makes a bootstrap token, the variable NAME.
func (s *scene) cmdToken(args []string) error {
	token, err := s.c.NewToken(s.t.Context(), args[1], args[2:]...)
	s.ts.Setenv(args[0], token)

	return err
}

// unsigned TOKEN: cluster-info has no signature of it.
func (s *scene) cmdUnsigned(args []string) error {
	info, err := s.c.ConfigMap(s.t.Context(), "kube-public", "cluster-info")
	if err == nil && info["jws-kubeconfig-"+args[0][:6]] != "" {
		err = errors.New("cluster-info: got a signature, want none")
	}

	return err
}

// config-map NAMESPACE/NAME KEY FILE: replaces all of a ConfigMap.
func (s *scene) cmdConfigMap(args []string) error {
	namespace, name, _ := strings.Cut(args[0], "/")

	return s.c.SetConfigMap(s.t.Context(), namespace, name, map[string]string{args[1]: s.text("@" + args[2])})
}

// requests [CLUSTER]: shows the requests of prelet since the last time, a line each: VERB USER URI STATUS, and what is
// patched.
func (s *scene) cmdRequests(args []string) error {
	name := append(args, "")[0]
	all, err := s.clusters[name].Requests("prelet")
	var b strings.Builder
	for _, r := range all[min(s.asked[name], len(all)):] {
		line := fmt.Sprintf("%s %s %s %d %s", r.Verb, r.User.Username, r.URI, r.Response.Code, r.Patch)
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	s.asked[name] = len(all)

	return s.show("0", CommandResult{Out: b.String()}, err)
}

// asked N: prelet has sent N requests or more since `requests`.
func (s *scene) cmdAsked(args []string) error {
	all, err := s.c.Requests("prelet")
	want, err2 := strconv.Atoi(args[0])
	if got := len(all) - s.asked[""]; got < want {
		return fmt.Errorf("got %d requests, want %d or more", got, want)
	}

	return errors.Join(err, err2)
}

// busy COMMAND…: carries it out while another client changes the Node all the time.
func (s *scene) cmdBusy(args []string) error {
	ctx, stop := context.WithCancel(s.t.Context())
	var other errgroup.Group
	other.Go(func() error {
		for i := 0; ctx.Err() == nil; i++ {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"busy":"%d"}}}`, i)
			_, err := s.c.Client.CoreV1().Nodes().
				Patch(ctx, s.n.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			if err != nil && ctx.Err() == nil {
				return err
			}
			time.Sleep(20 * time.Millisecond)
		}

		return nil
	})
	err := s.do(false, args)
	stop()

	return errors.Join(err, other.Wait())
}

// heartbeats N: waits until the kubelet has updated the status of its Node N times.
func (s *scene) cmdHeartbeats(args []string) error {
	seen := map[time.Time]bool{}

	return waitFor(s.t.Context(), time.Minute, "updates of the status", func() string {
		n, err := s.c.Node(s.t.Context(), s.n.Name)
		if err != nil {
			return err.Error()
		}
		for _, x := range n.Status.Conditions {
			if x.Type == corev1.NodeReady {
				seen[x.LastHeartbeatTime.Time] = true
			}
		}
		if got := fmt.Sprint(len(seen) - 1); got != args[0] {
			return fmt.Sprintf("got %s, want %s", got, args[0])
		}
		return ""
	})
}

// beats waits until the kubelet has renewed its lease from now on.
func (s *scene) cmdBeats([]string) error {
	now := time.Now()

	return waitFor(s.t.Context(), time.Minute, "the kubelet renews its lease", func() string {
		leases := s.c.Client.CoordinationV1().Leases("kube-node-lease")
		lease, err := leases.Get(s.t.Context(), s.n.Name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err.Error()
		case lease.Spec.RenewTime.Before(&metav1.MicroTime{Time: now}):
			return "the last is of " + lease.Spec.RenewTime.String()
		}
		return ""
	})
}

// ready [NAME]: waits until the Node is Ready.
func (s *scene) cmdReady(args []string) error {
	_, err := s.c.Ready(s.t.Context(), cmp.Or(append(args, "")[0], s.n.Name))

	return err
}

// labels KEY=VALUE…: the Node has these labels; those without a value it does not have.
func (s *scene) cmdLabels(args []string) error {
	n, err := s.c.Node(s.t.Context(), s.n.Name)
	if err != nil {
		return err
	}
	for _, word := range args {
		key, want, _ := strings.Cut(word, "=")
		if got := n.Labels[key]; got != want {
			return fmt.Errorf("label %s: got %q, want %q", key, got, want)
		}
	}

	return nil
}

// all VALUE KEYS…: the Node has labels of these keys, and all have the value. KEYS is a list in one word.
func (s *scene) cmdAll(args []string) error {
	var words []string
	for key := range strings.FieldsSeq(strings.Join(args[1:], " ")) {
		words = append(words, key+"="+args[0])
	}

	return s.cmdLabels(words)
}

// takes-effect WHEN KEYS…: by the plan, labels of these keys take effect then: registration, restart or reconcile.
func (s *scene) cmdTakesEffect(args []string) error {
	p := planOf(s.t, s.n)
	for key := range strings.FieldsSeq(strings.Join(args[1:], " ")) {
		if got := p.Node.Labels[key].TakesEffect; got != args[0] {
			return fmt.Errorf("plan, label %s: got that it takes effect at %q, want %q", key, got, args[0])
		}
	}

	return nil
}

// taints KEY=VALUE:EFFECT…: the Node has these taints and no other ones, except those of Kubernetes itself.
func (s *scene) cmdTaints(args []string) error {
	n, err := s.c.Node(s.t.Context(), s.n.Name)
	if err != nil {
		return err
	}
	var got []string
	for _, x := range n.Spec.Taints {
		if !strings.HasPrefix(x.Key, "node.kubernetes.io/") {
			got = append(got, x.ToString())
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, args) {
		return fmt.Errorf("taints: got %q, want %q", got, args)
	}

	return nil
}

// machine-id NAME: the Node of the current machine has the ID of that machine.
func (s *scene) cmdMachineID(args []string) error {
	want, err := s.machines[args[0]].Read("/etc/machine-id")
	if err != nil {
		return err
	}
	n, err := s.c.Node(s.t.Context(), s.n.Name)
	if err == nil && n.Status.NodeInfo.MachineID != strings.TrimSpace(want) {
		err = fmt.Errorf("machine of the Node: got %s, want %s", n.Status.NodeInfo.MachineID, want)
	}

	return err
}

// condition TYPE STATUS(REASON): the Node has this condition.
func (s *scene) cmdCondition(args []string) error {
	n, err := s.c.Node(s.t.Context(), s.n.Name)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(n.Status.Conditions, func(x corev1.NodeCondition) bool { return string(x.Type) == args[0] })
	if i < 0 {
		return fmt.Errorf("condition %s: got none in %+v", args[0], n.Status.Conditions)
	}
	x := n.Status.Conditions[i]
	if got := fmt.Sprintf("%s(%s)", x.Status, x.Reason); got != args[1] {
		return fmt.Errorf("condition %s: got %s: %s, want %s", args[0], got, x.Message, args[1])
	}

	return nil
}

// configz FIELD=VALUE…: the kubelet runs with these fields.
func (s *scene) cmdConfigz(args []string) error {
	running, err := s.c.Configz(s.t.Context(), s.n)
	if err != nil {
		return err
	}
	for _, word := range args {
		field, want, _ := strings.Cut(word, "=")
		if got := fmt.Sprint(running[field]); got != want {
			return fmt.Errorf("/configz, %s: got %s, want %s", field, got, want)
		}
	}

	return nil
}

// declared: the Node has the features that a plan of a fleet counts for a recording of this node, less those that the
// container runtime would have to support.
func (s *scene) cmdDeclared([]string) error {
	record := "mkdir -p /srv/one && prelet record --config /etc/prelet - >/srv/one/n1.prelet"
	err := s.cmdIn([]string{"0", "sh", "-c", record + " && prelet plan --from /srv/one --names -o json"})
	var report struct {
		Declares struct {
			Features []struct {
				Name      string
				ByRuntime bool `json:"by_runtime"`
			}
		} `json:"declared_features"`
	}
	var want []string
	err = errors.Join(err, json.Unmarshal([]byte(s.last.Out), &report))
	for _, f := range report.Declares.Features {
		if !f.ByRuntime {
			want = append(want, f.Name)
		}
	}
	n, err2 := s.c.Node(s.t.Context(), s.n.Name)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if got := n.Status.DeclaredFeatures; len(want) == 0 || !slices.Equal(got, want) {
		return fmt.Errorf("declared features: got %q, want %q", got, want)
	}

	return nil
}

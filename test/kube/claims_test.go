package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const (
	claimDriver = "driver.example.com"
	claimSocket = "/var/lib/kubelet/plugins/driver/dra.sock"
	claimSpec   = "/run/cdi/driver.example.com-claim.json" // lost with each boot, as all of /run

	claimPod = `
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: default, name: default}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {namespace: default, name: gpu}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: example.com}}]}}
---
apiVersion: v1
kind: Pod
metadata: {namespace: default, name: training}
spec:
  hostNetwork: true
  automountServiceAccountToken: false
  tolerations: [{operator: Exists}]
  resourceClaims: [{name: gpu, resourceClaimName: gpu}]
  containers:
  - {name: training, image: "registry.test/training:1", resources: {claims: [{name: gpu}]}}
`
)

// TestClaimAfterReboot: a pod that has a device by a ResourceClaim, on a node that boots again. The kubelet finds the
// claim in its checkpoint, and asks the driver all the same, before it makes the pod's containers: a driver that
// writes its CDI spec whenever it is asked loses nothing, and one that answers from its own memory alone leaves the
// runtime a device without a spec (kubernetes/kubernetes#141433 was that, in an example driver).
func TestClaimAfterReboot(t *testing.T) {
	t.Parallel()
	for _, isWriting := range []bool{true, false} {
		t.Run(fmt.Sprintf("the driver writes its spec again %t", isWriting), func(t *testing.T) {
			t.Parallel()
			c := start(t, ClusterOptions{})
			n := newNode(t, c, NodeOptions{}, "10.0.0.11:6443")
			must(t, n.Credential("bootstrap-token", c.Token))
			must(t, n.Site(siteOf(t, c, "minimal")))
			prelet(t, n, 0, "run")
			d := startClaimDriver(t, n)
			startClaimPod(t, c)

			must(t, waitFor(t.Context(), 2*time.Minute, "the pod runs with its device", func() string {
				pod, err := c.Client.CoreV1().Pods("default").Get(t.Context(), "training", metav1.GetOptions{})
				must(t, err)
				if pod.Status.Phase != corev1.PodRunning || d.prepared() == 0 {
					return fmt.Sprintf("got phase %s after %d calls", pod.Status.Phase, d.prepared())
				}

				return ""
			}))
			checkpoint, err := n.Read("/var/lib/kubelet/dra_manager_state")
			must(t, err)
			if !strings.Contains(checkpoint, claimDriver) {
				t.Fatalf("the kubelet's checkpoint: got %s, want the claim", checkpoint)
			}

			// A boot: the runtime's containers and all of /run are gone.
			must(t, n.StopKubelet(t.Context()))
			must(t, n.StopFakeRuntime())
			must(t, os.RemoveAll(n.Root()+filepath.Dir(claimSpec)))
			must(t, os.RemoveAll(n.Root()+"/run/prelet"))
			before := d.prepared()
			d.set(isWriting)
			must(t, n.StartFakeRuntime(t.Context(), "cgroupfs"))
			must(t, n.WantKubelet(t.Context()))
			prelet(t, n, 0, "run")

			must(t, waitFor(t.Context(), 2*time.Minute, "the kubelet asks the driver again", func() string {
				if d.prepared() == before {
					return fmt.Sprintf("got %d calls as before the boot", before)
				}

				return ""
			}))
			if _, err := n.Read(claimSpec); (err == nil) != isWriting {
				t.Errorf("%s after the boot: got %v, want it there %t", claimSpec, err, isWriting)
			}
		})
	}
}

// startClaimPod makes the pod, and allocates its device and its node as the scheduler would.
func startClaimPod(t *testing.T, c *Cluster) {
	t.Helper()
	create(t, c, claimPod)
	pod, err := c.Client.CoreV1().Pods("default").Get(t.Context(), "training", metav1.GetOptions{})
	must(t, err)
	claims := c.Client.ResourceV1().ResourceClaims("default")
	claim, err := claims.Get(t.Context(), "gpu", metav1.GetOptions{})
	must(t, err)
	claim.Status = resourcev1.ResourceClaimStatus{
		Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{
				{Request: "gpu", Driver: claimDriver, Pool: "n1", Device: "gpu-0"},
			},
		}},
		ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}},
	}
	_, err = claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{})
	must(t, err)
	must(t, c.Client.CoreV1().Pods("default").Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "n1"},
	}, metav1.CreateOptions{}))
}

// claimServer is a driver for dynamic resource allocation, on the node's sockets.
type claimServer struct {
	registration.UnimplementedRegistrationServer
	dra.UnimplementedDRAPluginServer

	node *Node

	mu        sync.Mutex
	calls     int
	isWriting bool // the CDI spec, at each call
}

// startClaimDriver registers a driver with the kubelet, as its DaemonSet would.
func startClaimDriver(t *testing.T, n *Node) *claimServer {
	t.Helper()
	d := &claimServer{node: n, isWriting: true}
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, d)
	dra.RegisterDRAPluginServer(server, d)
	t.Cleanup(server.Stop)
	for _, path := range []string{claimSocket, "/var/lib/kubelet/plugins_registry/driver-reg.sock"} {
		must(t, os.MkdirAll(n.Root()+filepath.Dir(path), 0o755))
		l, err := net.Listen("unix", n.Root()+path)
		must(t, err)
		go func() { _ = server.Serve(l) }()
	}

	return d
}

func (d *claimServer) prepared() int {
	d.mu.Lock()
	defer d.mu.Unlock()

	return d.calls
}

func (d *claimServer) set(isWriting bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isWriting = isWriting
}

// GetInfo answers the kubelet's watcher of plugins.
func (d *claimServer) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.DRAPlugin,
		Name:              claimDriver,
		Endpoint:          claimSocket,
		SupportedVersions: []string{dra.DRAPluginService},
	}, nil
}

// NotifyRegistrationStatus takes how the registration ended.
func (d *claimServer) NotifyRegistrationStatus(
	context.Context, *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	return &registration.RegistrationStatusResponse{}, nil
}

// NodePrepareResources prepares the device of each claim.
func (d *claimServer) NodePrepareResources(
	_ context.Context, r *dra.NodePrepareResourcesRequest,
) (*dra.NodePrepareResourcesResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	if d.isWriting {
		spec, err := json.Marshal(map[string]any{
			"cdiVersion": "0.6.0",
			"kind":       claimDriver + "/claim",
			"devices": []any{map[string]any{
				"name": "gpu-0", "containerEdits": map[string]any{"env": []string{"GPU=0"}},
			}},
		})
		if err != nil {
			return nil, err
		}
		if err := d.node.Write(claimSpec, string(spec), 0o644); err != nil {
			return nil, err
		}
	}

	out := &dra.NodePrepareResourcesResponse{Claims: map[string]*dra.NodePrepareResourceResponse{}}
	for _, claim := range r.Claims {
		out.Claims[claim.Uid] = &dra.NodePrepareResourceResponse{Devices: []*dra.Device{{
			RequestNames: []string{"gpu"},
			PoolName:     "n1",
			DeviceName:   "gpu-0",
			CdiDeviceIds: []string{claimDriver + "/claim=gpu-0"},
		}}}
	}

	return out, nil
}

// NodeUnprepareResources gives the devices back.
func (d *claimServer) NodeUnprepareResources(
	_ context.Context, r *dra.NodeUnprepareResourcesRequest,
) (*dra.NodeUnprepareResourcesResponse, error) {
	out := &dra.NodeUnprepareResourcesResponse{Claims: map[string]*dra.NodeUnprepareResourceResponse{}}
	for _, claim := range r.Claims {
		out.Claims[claim.Uid] = &dra.NodeUnprepareResourceResponse{}
	}

	return out, nil
}

package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/prelet/prelet/bench/measure"
)

// nodeConfig is what a user of EKS gives nodeadm. All else comes from the metadata service, the hardware and a table of
// instance types in the program.
const nodeConfig = `---
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: peer
    apiServerEndpoint: %s
    certificateAuthority: %s
    cidr: 10.96.0.0/16
  kubelet:
    flags: ["--node-labels=example.com/pool=a"]
`

func (b *bench) nodeadmProgram() string { return cmp.Or(b.nodeadm, filepath.Join(b.peers, "nodeadm")) }

// prepareNodeadm: its configuration phase needs EC2's metadata service and a connection to systemd, which it does not
// use before the phase "run". It requests nothing from the cluster: its NodeConfig has what kubeadm and prelet fetch.
func prepareNodeadm(_ context.Context, b *bench, n *node) ([]measure.Command, error) {
	err := errors.Join(
		n.installDebian(filepath.Join(b.peers, "debian")),
		n.mount(b.nodeadmProgram(), "opt/nodeadm"),
		n.mount(filepath.Join(b.kube, b.server.Version, "kubelet"), "opt/kubelet"),
		n.mount(filepath.Join(b.kube, "containerd/usr/bin/containerd"), "opt/containerd"),
		n.write("node.yaml", fmt.Sprintf(nodeConfig, b.server.URL, encode(b.server.CA))),
		n.write("etc/eks/image-credential-provider/ecr-credential-provider", "#!/bin/true\n"),
		os.MkdirAll(filepath.Join(n.root, "run/systemd"), 0o755),
	)
	if err != nil {
		return nil, err
	}
	if err := b.serveSystemd(filepath.Join(n.root, "run/systemd/private")); err != nil {
		return nil, err
	}

	return []measure.Command{{
		Args: []string{"/opt/nodeadm", "init", "--skip", "run", "--config-source", "file:///node.yaml"},
		Env: []string{
			"PATH=/opt:/usr/bin", "HOME=/root",
			// Newer versions also ask EC2 for the instance's name, and containerd for its version.
			"AWS_ENDPOINT_URL=http://" + metadataAddress, "AWS_ACCESS_KEY_ID=peer", "AWS_SECRET_ACCESS_KEY=peer",
		},
		Root: n.root,
	}}, nil
}

// serveSystemd accepts a connection to systemd, and answers each call on it with nothing.
func (b *bench) serveSystemd(path string) error {
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	b.closers = append(b.closers, l)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answerCalls(conn)
		}
	}()

	return nil
}

// answerCalls is the server's side of D-Bus' handshake, see "Authentication Protocol" in its specification, and of the
// calls after it.
func answerCalls(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		words := strings.Fields(strings.TrimLeft(line, "\x00"))
		if err != nil || len(words) == 0 {
			return
		}
		answer := "ERROR"
		switch {
		case len(words) == 1 && words[0] == "AUTH":
			answer = "REJECTED EXTERNAL"
		case words[0] == "AUTH":
			answer = "OK 0123456789abcdef0123456789abcdef"
		case words[0] == "BEGIN":
			for err == nil {
				err = answerCall(in, conn)
			}
			return
		}
		if _, err := fmt.Fprintf(conn, "%s\r\n", answer); err != nil {
			return
		}
	}
}

func answerCall(in io.Reader, out io.Writer) error {
	call, err := dbus.DecodeMessage(in)
	if err != nil {
		return err
	}
	reply := &dbus.Message{
		Type: dbus.TypeMethodReply,
		Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldReplySerial: dbus.MakeVariant(call.Serial()),
		},
	}

	return reply.EncodeTo(out, binary.LittleEndian)
}

// describedInstances is EC2's answer to DescribeInstances.
const describedInstances = `<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
<reservationSet><item><instancesSet><item><instanceId>i-0123456789abcdef0</instanceId>
<privateDnsName>ip-192-0-2-10.us-west-2.compute.internal</privateDnsName>
</item></instancesSet></item></reservationSet></DescribeInstancesResponse>`

// metadata is a metadata service for an instance whose type is in nodeadm's table, and as much of EC2's API as newer
// versions need. It counts its requests.
type metadata struct{ requests atomic.Int64 }

// instanceDocument is the instance identity document.
const instanceDocument = `{"instanceId": "i-0123456789abcdef0", "region": "us-west-2", "instanceType": "p5.48xlarge",
"availabilityZone": "us-west-2a", "privateIp": "192.0.2.10", "accountId": "123456789012", "imageId": "ami-0",
"architecture": "x86_64", "version": "2017-09-30", "pendingTime": "2026-01-01T00:00:00Z"}`

func (m *metadata) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.requests.Add(1)
	answers := map[string]string{
		"/":                 describedInstances,
		"/latest/api/token": "token",
		"/latest/dynamic/instance-identity/document":    instanceDocument,
		"/latest/meta-data/mac":                         "02:00:00:00:00:01",
		"/latest/meta-data/local-ipv4":                  "192.0.2.10",
		"/latest/meta-data/local-hostname":              "ip-192-0-2-10.us-west-2.compute.internal",
		"/latest/meta-data/services/domain":             "amazonaws.com",
		"/latest/meta-data/placement/region":            "us-west-2",
		"/latest/meta-data/instance-id":                 "i-0123456789abcdef0",
		"/latest/meta-data/network/interfaces/macs/":    "02:00:00:00:00:01/",
		"/latest/meta-data/placement/availability-zone": "us-west-2a",
	}
	answer, ok := answers[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
	_, _ = fmt.Fprint(w, answer) // a client that went away is not measured
}

// serveMetadata starts the service on the address that nodeadm knows.
func (b *bench) serveMetadata() error {
	l, err := net.Listen("tcp", net.JoinHostPort(metadataAddress, "80"))
	if err != nil {
		return err
	}
	b.closers = append(b.closers, l)
	server := http.Server{Handler: &b.metadata, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }() // ends with the listener

	return nil
}

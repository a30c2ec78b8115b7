// Command serve is the cluster and the machine of a benchmark, as a separate process so that its work is not
// measured.
//
// It builds the machine, prints the cluster's address as one line of JSON, and exits when stdin is closed. It listens
// on loopback only, and writes below -machine only.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/prelet/prelet/internal/machine/probe/hardware/hwtree"
	"github.com/prelet/prelet/internal/testing/demo"
)

// address is the line that serve prints.
type address struct {
	URL    string `json:"url"`
	CAHash string `json:"ca_hash"`
	Token  string `json:"token"` // of a cluster that lives as long as this process
	// Kubeconfig is the kubelet.conf of a node that has joined it.
	Kubeconfig string `json:"kubeconfig"`
}

func main() {
	kubelet := flag.String(
		"kubelet-config",
		"",
		"`FILE` for key kubelet of kube-system/kubelet-config",
	)
	delay := flag.Duration("delay", 0, "how much longer each answer takes, as on a slow network")
	spec := flag.String("spec", "", "`FILE` that describes a machine")
	machine := flag.String("machine", "", "`FOLDER` to build that machine in")
	flag.Parse()
	err := build(*spec, *machine)
	if err == nil {
		err = serve(*kubelet, *delay, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

// build makes the machine's sys/ and proc/, if one is described.
func build(spec, machine string) error {
	if spec == "" {
		return nil
	}
	return hwtree.BuildFile(spec, machine)
}

func serve(kubelet string, delay time.Duration, in io.Reader, out io.Writer) error {
	text, err := os.ReadFile(kubelet)
	if err != nil {
		return err
	}
	server := demo.Start(demo.ServerConfig{Delay: delay})
	defer server.Close()
	server.SetConfigMap("kube-system", "kubelet-config", map[string]string{"kubelet": string(text)})

	err = json.NewEncoder(out).Encode(address{
		URL:        server.URL,
		CAHash:     server.CAHash(),
		Token:      demo.Token,
		Kubeconfig: string(server.NodeKubeconfig("node")),
	})
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)

	return err
}

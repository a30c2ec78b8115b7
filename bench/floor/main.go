// Command floor is the least that any program would have to do for a first boot: two TLS requests on one connection, a
// listing of the PCI bus, four files written and fsynced. It decides nothing and protects nothing: the cost of prelet
// is the difference to it.
//
// It talks to the server that it is given, reads below -hardware and writes below -out.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("floor", flag.ContinueOnError)
	flags.SetOutput(stderr)
	server := flags.String("server", "", "https `URL` of the apiserver")
	hash := flags.String("ca-hash", "", "the CA's pin, `sha256:HEX` of its SubjectPublicKeyInfo")
	tokenFile := flags.String(
		"token-file",
		"",
		"`FILE` with the bearer token of the second request",
	)
	hardware := flags.String("hardware", "/", "`FOLDER` that holds the machine's sys/")
	out := flags.String("out", "", "`FOLDER` for the four files")
	if err := flags.Parse(args); err != nil {
		return 64
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := boot(ctx, *server, *hash, *tokenFile, *hardware, *out); err != nil {
		fmt.Fprintln(stderr, "floor:", err)
		return 1
	}
	return 0
}

func boot(ctx context.Context, server, hash, tokenFile, hardware, out string) error {
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return err
	}
	got, err := fetch(ctx, server, hash, string(token))
	if err != nil {
		return err
	}
	devices, err := listPCI(os.DirFS(hardware))
	if err != nil {
		return err
	}
	return writeFour(out, map[string]string{
		"ca.crt":                 got.ca,
		"config.yaml":            got.kubelet,
		"bootstrap-kubelet.conf": got.kubeconfig,
		"kubeadm-flags.env": fmt.Sprintf(
			"KUBELET_KUBEADM_ARGS=\"--node-labels=pci-devices=%d\"\n",
			len(devices),
		),
	})
}

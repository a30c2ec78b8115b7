package sites

import (
	_ "embed"
	"path/filepath"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/userfile"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/probe/joined"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/apiaddress"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/schema"
)

// InitOptions are the cluster of a first site, and where the site is written.
type InitOptions struct {
	Dir      string
	Servers  []string // HOST:PORT
	Hashes   []string // pins of the cluster's CA, "sha256:" and 64 hex digits
	CAFile   string   // the cluster's CA as PEM, whose pins are added; "" for none
	FromNode bool     // add the pins of the cluster that this node has joined, and its server where Servers is empty
	Root     string   // of that node's files; "" is /
}

// Init writes a site for a worker of a kubeadm cluster, and returns the path of its file. It overwrites nothing.
func Init(e *machine.Env, o InitOptions) (string, error) {
	servers, hashes, err := o.findCluster()
	if err != nil {
		return "", err
	}
	if err := checkServers(servers); err != nil {
		return "", err
	}
	if err := schema.CACertHashes.Check(hashes); err != nil {
		return "", fault.Usage.Errorf("--ca-cert-hash: %s", err)
	}
	if name := findSiteFile(o.Dir); name != "" {
		return "", fault.CannotWrite.Errorf(
			"%s has a site already (%s), and a second one in it would define everything twice; name another folder",
			o.Dir,
			name,
		)
	}

	path := filepath.Join(o.Dir, "site.hcl")
	text := writeFirstSite(servers, hashes)
	files := []tape.SiteFile{{Name: path, Text: string(text)}}
	parsed, diags := lang.Parse(files, machine.SiteOptions(e.Version))
	if !diags.HasErrors() {
		diags = evaluate.Check(parsed, evaluate.SampleMachines()[:1], evaluate.CheckOptions{})
	}
	if diags.HasErrors() {
		return "", &lab.Explained{
			Err:      fault.Usage.Errorf("the first site would have errors"),
			Messages: diags,
			Sources:  parsed.Sources,
		}
	}

	if err := userfile.Create(path, text); err != nil {
		return "", fault.CannotWrite.Errorf("%s", err)
	}

	return path, nil
}

// findSiteFile returns the name of a file of a site that is in a folder; "" if there is none.
func findSiteFile(dir string) string {
	entries, _ := nodefile.ReadDir(dir) // a folder that does not exist has none
	for _, e := range entries {
		if lang.IsSiteFile(e.Name()) {
			return e.Name()
		}
	}
	return ""
}

// findCluster returns the servers and the pins that the options give or refer to. There is at least one of each.
func (o InitOptions) findCluster() (servers, hashes []string, err error) {
	servers, hashes = o.Servers, append(hashes, o.Hashes...)

	if o.FromNode {
		cluster, err := joined.Reader{Root: nodefile.Root(o.Root), Now: time.Now}.Cluster()
		if err != nil {
			return nil, nil, &fault.Fault{
				Code:    fault.Usage,
				Summary: "--from-node: this node has not joined a cluster",
				Err:     err,
			}
		}
		if len(servers) == 0 {
			servers = []string{cluster.Server}
		}
		hashes = append(hashes, cluster.Hashes...)
	}

	if o.CAFile != "" {
		pem, err := userfile.ReadInput(o.CAFile, userfile.MaxBytes)
		if err != nil {
			return nil, nil, fault.Usage.Errorf("--ca-file %s: %s", o.CAFile, err)
		}
		pins, err := joined.CAHashes(pem)
		if err != nil {
			return nil, nil, fault.Usage.Errorf("--ca-file %s: %s", o.CAFile, err)
		}
		hashes = append(hashes, pins...)
	}

	if len(servers) == 0 || len(hashes) == 0 {
		return nil, nil, fault.Usage.Errorf(
			"a first site needs an API server (--server) and its pins (--ca-cert-hash or --ca-file).\n" +
				"On a node that has joined, --from-node finds both; on a control plane,\n" +
				"`kubeadm token create --print-join-command` shows them",
		)
	}
	return servers, hashes, nil
}

// checkServers refuses a server that is not valid or that is repeated.
func checkServers(servers []string) error {
	first := map[string]string{} // by address, as it was written
	for _, s := range servers {
		address, err := apiaddress.Parse(s)
		if err != nil {
			return fault.Usage.Errorf("--server: %s", err)
		}
		if f, repeated := first[address]; repeated {
			return fault.Usage.Errorf("--server: %q is there twice, first as %q", s, f)
		}
		first[address] = s
	}
	return nil
}

//go:embed sample/first.hcl.tmpl
var firstSite string

// writeFirstSite returns the text of the site for a cluster.
func writeFirstSite(servers, hashes []string) []byte {
	fill := strings.NewReplacer("SERVERS", texts.QuoteAll(servers), "HASHES", texts.QuoteAll(hashes))

	return lang.Format([]byte(fill.Replace(firstSite)))
}

// Package monitoring tests the files of packaging/monitoring with promtool, and with a real Prometheus that scrapes
// real node_exporters over the metrics of three nodes.
package monitoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/testing/osfile"
)

const (
	files = "../../packaging/monitoring"

	// wanted is set by make e2e-monitoring: without it these tests are skipped, with it they need the programs.
	wanted = "PRELET_MONITORING"
)

func TestRules(t *testing.T) {
	requirePrograms(t, "promtool")
	for _, args := range [][]string{
		{"check", "rules", files + "/prelet.rules.yml"},
		{"test", "rules", files + "/prelet.rules_test.yml"},
	} {
		out, err := exec.Command("promtool", args...).CombinedOutput()
		if err != nil {
			t.Errorf("promtool %s: got %v, want no error\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestScrape scrapes a healthy, a degraded and a failed node, one that systemd runs again after a failure, and one
// without prelet. Every query of the dashboard must have a result, and the alerts must be pending for the nodes that
// they are about.
func TestScrape(t *testing.T) {
	requirePrograms(t, "prometheus", "prometheus-node-exporter")

	nodes := map[string]string{
		"healthy": startExporter(t, writeMetrics(t, func(r *report.Reporter) (fault.Code, string) {
			r.Generation(1)
			r.Verdict("good", "")
			return "", "generation 1 is in place"
		})),
		"degraded": startExporter(t, writeMetrics(t, func(r *report.Reporter) (fault.Code, string) {
			r.Generation(2)
			r.Verdict("unknown", "the cluster does not answer")
			r.Degrade("mount-missing", "/var is not mounted")
			return "", "generation 2 is in place"
		})),
		"failed": startExporter(t, writeMetrics(t, func(r *report.Reporter) (fault.Code, string) {
			return fault.ClusterDenied, "the cluster denies the cluster's CA"
		})),
		"repeated": startExporter(t, repeatRun(t)),
		"missing":  startExporter(t, t.TempDir()),
	}
	server := startPrometheus(t, nodes)

	waitFor(t, "a scrape of each node", func() error {
		samples, err := server.query(t, "node_exporter_build_info")
		if err == nil && len(samples) != len(nodes) {
			err = fmt.Errorf("got %d nodes, want %d", len(samples), len(nodes))
		}
		return err
	})

	waitFor(t, "the alerts", func() error {
		samples, err := server.query(t, `ALERTS`)
		if err != nil {
			return err
		}
		got := map[string]bool{}
		for _, s := range samples {
			got[s.Metric["alertname"]+" "+s.Metric["instance"]] = true
		}
		for _, want := range []string{
			"PreletFailed " + nodes["failed"],
			"PreletFailed " + nodes["repeated"],
			"PreletStuck " + nodes["repeated"],
			"PreletMissing " + nodes["missing"],
			"PreletDegraded " + nodes["degraded"],
			"PreletVerdictMissing " + nodes["degraded"],
		} {
			if !got[want] {
				return fmt.Errorf("got alerts %v, want %s", got, want)
			}
		}
		if len(got) != 6 {
			return fmt.Errorf("got alerts %v, want 6", got)
		}
		return nil
	})

	for _, q := range readDashboard(t) {
		samples, err := server.query(t, q.expression)
		if err != nil || len(samples) == 0 {
			t.Errorf("panel %q, %s: got %d samples, %v; want at least one", q.panel, q.expression, len(samples), err)
		}
	}
}

func requirePrograms(t *testing.T, names ...string) {
	t.Helper()
	if os.Getenv(wanted) == "" {
		t.Skip("this needs Prometheus: make e2e-monitoring")
	}
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("got %v; want it installed: apt-get install prometheus prometheus-node-exporter", err)
		}
	}
}

// writeMetrics writes status.json and metrics.prom as a run does, and returns its folder.
func writeMetrics(t *testing.T, run func(*report.Reporter) (fault.Code, string)) string {
	t.Helper()
	dir := t.TempDir()
	r := startRun(t, dir)
	r.Event(report.Event{Stage: "fetch-ca.cluster", State: report.Started})
	r.Event(report.Event{Stage: "fetch-ca.cluster", State: report.OK})
	code, summary := run(r)
	status := r.Finish(code, summary)
	must(t, errors.Join(r.WriteStatus(), status.WriteMetrics(dir)))

	return dir
}

// repeatRun writes metrics.prom as during the run after a failed one, and returns its folder.
func repeatRun(t *testing.T) string {
	t.Helper()
	dir := writeMetrics(t, func(*report.Reporter) (fault.Code, string) {
		return fault.ClusterUnreachable, "the cluster does not answer"
	})
	startRun(t, dir)

	return dir
}

func startRun(t *testing.T, dir string) *report.Reporter {
	t.Helper()
	r, err := report.New(report.ReporterConfig{
		Dir:     dir,
		BootID:  strings.Repeat("0", 32),
		Version: "test",
		Now:     time.Now,
		Redact:  func(s string) string { return s },
	})
	must(t, err)

	return r
}

// startExporter starts a node_exporter that reads a folder, and returns its address.
func startExporter(t *testing.T, dir string) string {
	t.Helper()
	address := freeAddress(t)
	start(t, "prometheus-node-exporter",
		"--collector.disable-defaults",
		"--collector.textfile",
		"--collector.textfile.directory="+dir,
		"--web.listen-address="+address,
	)

	return address
}

// prometheus is the address of a running server.
type prometheus string

func startPrometheus(t *testing.T, nodes map[string]string) prometheus {
	t.Helper()
	rules, err := filepath.Abs(files + "/prelet.rules.yml")
	must(t, err)
	targets := []string{}
	for _, address := range nodes {
		targets = append(targets, address)
	}
	configuration := map[string]any{
		"global":     map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files": []string{rules},
		"scrape_configs": []any{map[string]any{
			"job_name":       "node",
			"static_configs": []any{map[string]any{"targets": targets}},
		}},
	}
	text, err := json.Marshal(configuration) // JSON is YAML
	must(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	osfile.Write(t, file, text, 0o600)

	address := freeAddress(t)
	start(t, "prometheus",
		"--config.file="+file,
		"--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address,
	)

	return prometheus(address)
}

// sample is one element of the result of a query.
type sample struct {
	Metric map[string]string `json:"metric"`
}

func (p prometheus) query(t *testing.T, expression string) ([]sample, error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	address := "http://" + string(p) + "/api/v1/query?query=" + url.QueryEscape(expression)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   struct {
			Result []sample `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	if answer.Status != "success" {
		return nil, errors.New(answer.Error)
	}

	return answer.Data.Result, nil
}

// dashboardQuery is a query of a panel, for all nodes.
type dashboardQuery struct{ panel, expression string }

func readDashboard(t *testing.T) (queries []dashboardQuery) {
	t.Helper()
	text := osfile.Read(t, files+"/prelet.dashboard.json")
	var dashboard struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	must(t, json.Unmarshal(text, &dashboard))

	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			expression := strings.ReplaceAll(target.Expr, "$instance", ".*")
			queries = append(queries, dashboardQuery{p.Title, expression})
		}
	}
	if len(queries) == 0 {
		t.Fatal("got a dashboard without queries, want some")
	}

	return queries
}

// start runs a program until the test ends.
func start(t *testing.T, name string, args ...string) {
	t.Helper()
	command := exec.Command(name, args...)
	var output strings.Builder
	command.Stdout = &output
	command.Stderr = &output
	must(t, command.Start())

	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", name, output.String())
		}
	})
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()

	return listener.Addr().String()
}

func waitFor(t *testing.T, what string, check func() error) {
	t.Helper()
	const most = time.Minute
	var err error
	for begin := time.Now(); time.Since(begin) < most; time.Sleep(200 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not after %s: %v; want it", what, most, err)
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}

package ovs_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/detectors/ovs"
	"github.com/prelet/prelet/plugins/sdk"
	"github.com/prelet/prelet/plugins/sdk/detectortest"
)

func detector() sdk.Detector { return ovs.New("1.0.0") }

func TestConforms(t *testing.T) { detectortest.Conform(t, detector(), nil) }

// TestDescription keeps the description that the example of a site is checked with.
func TestDescription(t *testing.T) {
	b, err := json.MarshalIndent(detectortest.Describe(t, detector()), "", "  ")
	must(t, err)
	golden := filepath.Join("testdata", "describe.json")
	if os.Getenv(detectortest.Update) != "" {
		must(t, os.WriteFile(golden, append(b, '\n'), 0o644))
	}
	if want, err := os.ReadFile(golden); err != nil || string(b)+"\n" != string(want) {
		t.Errorf("description: got\n%s\nwant %s (%v)", b, golden, err)
	}
}

// factJSON returns a fact as JSON.
func factJSON(a contract.Answer, name string) string {
	for _, f := range a.Facts {
		if f.Name == name {
			b, _ := json.Marshal(f.Value) // of an answer that was checked
			return string(b)
		}
	}
	return "no such fact"
}

// session is the recorded response of an ovsdb-server 3.1; record writes it.
type session struct {
	Schema  json.RawMessage   `json:"schema"`
	Results []json.RawMessage `json:"results"` // of the selects, by table
}

const sessionFile = "testdata/dpdk-session.json"

// serve is a server that gives recorded answers.
func serve(t *testing.T, socket string, s session) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answer(c, s)
		}
	}()
}

func answer(c net.Conn, s session) {
	defer c.Close()
	in, out := json.NewDecoder(c), json.NewEncoder(c)
	for {
		var q struct {
			Method string            `json:"method"`
			Params []json.RawMessage `json:"params"`
			ID     json.RawMessage   `json:"id"`
		}
		if in.Decode(&q) != nil {
			return
		}
		var result any
		switch q.Method {
		case "list_dbs":
			result = []string{"Open_vSwitch"}
		case "get_schema":
			result = s.Schema
		case "transact":
			result = s.Results
		case "echo":
			result = q.Params
		}
		if out.Encode(map[string]any{"id": q.ID, "result": result, "error": nil}) != nil {
			return
		}
	}
}

func recorded(t *testing.T) session {
	t.Helper()
	b, err := os.ReadFile(sessionFile)
	must(t, err)
	var s session
	must(t, json.Unmarshal(b, &s))
	return s
}

// record asks a real server what serve is to answer.
func record(t *testing.T, socket string) {
	t.Helper()
	c, err := net.Dial("unix", socket)
	must(t, err)
	defer c.Close()
	out, in := json.NewEncoder(c), json.NewDecoder(c)
	call := func(method string, params any, result any) {
		var a struct {
			Result json.RawMessage `json:"result"`
		}
		must(t, out.Encode(map[string]any{"method": method, "params": params, "id": method}))
		must(t, in.Decode(&a))
		must(t, json.Unmarshal(a.Result, result))
	}
	var s session
	var schema map[string]any
	call("get_schema", []string{"Open_vSwitch"}, &schema)
	wanted := ovs.Columns()
	tables, _ := schema["tables"].(map[string]any)
	for name, table := range tables {
		columns, _ := table.(map[string]any)["columns"].(map[string]any)
		for column := range columns {
			if !strings.Contains(" "+strings.Join(wanted[name], " ")+" ", " "+column+" ") {
				delete(columns, column)
			}
		}
		if wanted[name] == nil {
			delete(tables, name)
		} else {
			delete(table.(map[string]any), "indexes")
		}
	}
	if s.Schema, err = json.Marshal(schema); err != nil {
		t.Fatal(err)
	}
	params := []any{"Open_vSwitch"}
	for _, table := range []string{"Bridge", "Interface", "Open_vSwitch", "Port"} {
		params = append(
			params,
			map[string]any{"op": "select", "table": table, "where": []any{}, "columns": wanted[table]},
		)
	}
	call("transact", params, &s.Results)
	b, err := json.MarshalIndent(s, "", " ")
	must(t, err)
	must(t, os.WriteFile(sessionFile, append(b, '\n'), 0o644))
}

// TestRecorded is TestReal for machines without ovsdb-server.
func TestRecorded(t *testing.T) {
	root := detectortest.Root(t, "/run/openvswitch/\n/etc/openvswitch/\n")
	serve(t, root.Path(ovs.Socket), recorded(t))
	got, err := json.MarshalIndent(detectortest.Detect(t, detector(), root, nil), "", "  ")
	must(t, err)
	want, err := os.ReadFile(filepath.Join("testdata", "dpdk.json"))
	must(t, err)
	if string(got)+"\n" != string(want) {
		t.Errorf("got\n%s\nwant testdata/dpdk.json", got)
	}
}

// TestOldSchema is a database of an Open vSwitch before 2.10, which has no columns for DPDK.
func TestOldSchema(t *testing.T) {
	s := recorded(t)
	var schema map[string]any
	must(t, json.Unmarshal(s.Schema, &schema))
	columns := schema["tables"].(map[string]any)["Open_vSwitch"].(map[string]any)["columns"].(map[string]any)
	delete(columns, "dpdk_initialized")
	delete(columns, "dpdk_version")
	var err error
	if s.Schema, err = json.Marshal(schema); err != nil {
		t.Fatal(err)
	}
	s.Results[2] = json.RawMessage(
		`{"rows":[{"_uuid":["uuid","5b4a0c60-0f0c-4a0e-8a5c-3d2a5a2b3c4d"],"ovs_version":"2.9.0"}]}`,
	)
	root := detectortest.Root(t, "/run/openvswitch/\n")
	serve(t, root.Path(ovs.Socket), s)
	a := detectortest.Detect(t, detector(), root, nil)
	if factJSON(a, "ovs_version") != `"2.9.0"` || factJSON(a, "dpdk_initialized") != "null" ||
		factJSON(a, "dpdk") != "true" {
		t.Errorf("got facts %+v, want unknown ones", a.Facts)
	}
}

func TestNotRunning(t *testing.T) {
	root := detectortest.Root(t, "/etc/openvswitch/conf.db = x\n/run/openvswitch/\n")
	a := detectortest.Detect(t, detector(), root, nil)
	if factJSON(a, "running") != "false" || factJSON(a, "dpdk") != "null" || len(a.Warnings) != 1 {
		t.Errorf("got %+v, want a reason", a)
	}
}

// TestDenied: the socket is for root alone, and the detector is not root.
func TestDenied(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may open everything")
	}
	root := detectortest.Root(t, "/run/openvswitch/\n")
	serve(t, root.Path(ovs.Socket), recorded(t))
	must(t, os.Chmod(root.Path(ovs.Socket), 0))
	a := detectortest.Detect(t, detector(), root, nil)
	if factJSON(a, "running") != "null" || len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], ovs.Group) {
		t.Errorf("got %+v, want a reason", a)
	}
}

// TestWaits: Open vSwitch and prelet start at the same time.
func TestWaits(t *testing.T) {
	root := detectortest.Root(t, "/run/openvswitch/\n")
	s := recorded(t)
	waits, serves := make(chan struct{}), make(chan struct{})
	go func() { // outside of the bubble, whose clock would stand still for the server
		defer close(serves)
		<-waits
		serve(t, root.Path(ovs.Socket), s)
	}()
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			a, err := sdk.Detect(context.Background(), detector(), map[string]any{"wait_seconds": 5.0}, nil, root)
			if err != nil || factJSON(a, "running") != "true" {
				t.Errorf("got %+v, %v, want an answer in time", a, err)
			}
		}()
		synctest.Wait() // it has looked without success
		close(waits)
		<-serves
		<-done
	})
}

// TestHangs: a server that takes the connection and says nothing.
func TestHangs(t *testing.T) {
	t.Parallel() // it takes all of its time
	root := detectortest.Root(t, "/run/openvswitch/\n")
	l, err := net.Listen("unix", root.Path(ovs.Socket))
	must(t, err)
	defer l.Close()
	for limit := time.Second; ; limit *= 2 {
		ctx, cancel := contextFor(t, limit)
		a, err := sdk.Detect(ctx, detector(), nil, nil, root)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && limit < time.Minute {
			continue // a busy machine needs more than the tenth that is left for the answer
		}
		if err != nil || factJSON(a, "running") != "null" || len(a.Warnings) != 1 {
			t.Errorf("got %v %+v; want an answer inside the deadline that says so", err, a)
		}
		return
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}

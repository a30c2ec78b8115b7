package examples

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/demo"
	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/internal/testing/table"
	"github.com/prelet/prelet/plugins/contract"
)

// ovs is where the detector's own tests keep what it says of itself, and of a database that a real ovsdb-server held.
const ovs = "../plugins/detectors/ovs/testdata/"

// openVSwitch answers the questions about the detector "ovs" with what it said; dpdk is whether Open vSwitch shows any.
func openVSwitch(t *testing.T, next tape.Source, locked, dpdk bool) tape.Source {
	t.Helper()
	load := func(file string, v any) json.RawMessage {
		b := osfile.Read(t, ovs+file)
		must(t, json.Unmarshal(b, v))
		return b
	}
	var description contract.Description
	var said contract.Answer
	describe := load("describe.json", &description)
	load("dpdk.json", &said)
	if problems := description.CheckAnswer(said, nil); len(problems) > 0 {
		t.Fatal(problems)
	}
	ans := tape.DetectorAns{
		Version:    description.Version,
		Attributes: said.Attributes,
		Facts:      map[string]any{},
		Labels:     map[string]string{},
	}
	for _, f := range said.Facts {
		ans.Facts[f.Name] = f.Value
	}
	if !dpdk {
		ans.Attributes, ans.Facts["dpdk"] = map[string]string{"dpdk": "false"}, false
	}
	value := func(v any) tape.Answer {
		b, err := json.Marshal(v)
		must(t, err)
		return tape.Answer{Value: b}
	}
	return tape.SourceFunc(func(ctx context.Context, q tape.Question) tape.Answer {
		switch {
		case q.Kind == tape.KindLock && locked:
			return value(
				tape.LockAns{
					LockEntry: tape.LockEntry{Name: "ovs", SHA256: hash, Describe: describe},
					File:      "/usr/lib/prelet/detectors.lock.d/ovs.json",
				},
			)
		case q.Kind == tape.KindDetector && locked:
			return value(ans)
		}
		return next.Ask(ctx, q)
	})
}

// withCards gives a machine the network cards of several: "a + b" has those of a and then those of b, and "a as
// 8086:1581" those of a, with that device for Intel's.
func withCards(t *testing.T, next tape.Source, machine string) tape.Source {
	t.Helper()
	var all []any
	for one := range strings.SplitSeq(machine, " + ") {
		one, as, _ := strings.Cut(one, " as ")
		b := osfile.Read(t, "../testdata/hardware/facts/"+one+".json")
		var facts struct {
			NICs []map[string]any `json:"nics"`
		}
		must(t, json.Unmarshal(b, &facts))
		for _, n := range facts.NICs {
			if as != "" && n["vendor"] == "intel" {
				n["device"] = as
			}
			all = append(all, n)
		}
	}
	return changeFacts(t, next, func(facts map[string]any) { facts["nics"] = all })
}

// changeFacts changes the facts of a machine in the answer to their question.
func changeFacts(t *testing.T, next tape.Source, change func(facts map[string]any)) tape.Source {
	return tape.SourceFunc(func(ctx context.Context, q tape.Question) tape.Answer {
		a := next.Ask(ctx, q)
		if q.Kind != tape.KindHardware {
			return a
		}
		var facts map[string]any
		err := json.Unmarshal(a.Value, &facts)
		change(facts)
		b, err2 := json.Marshal(facts)
		if err := errors.Join(err, err2); err != nil {
			t.Error(err)
		}
		return tape.Answer{Value: b}
	})
}

const hash = "0000000000000000000000000000000000000000000000000000000000000000"

// TestSRIOV holds the label and the taint that init-k8s-node.py gave to nodes whose Open vSwitch shows DPDK: by the
// first family of its list that there is, and to no other node.
func TestSRIOV(t *testing.T) {
	const key = "network.netease.com/sriov-type"
	i := slices.IndexFunc(all(), func(e example) bool { return e.name == "legacy-vm" })
	e := all()[i]
	for _, tt := range table.YAML[[]struct {
		Machine      string
		Locked, DPDK bool
		Want         string
	}](t, `
- {machine: legacy-mt27710, locked: true, dpdk: true, want: mlnx-25G}
# its link reports no speed, from which the script made its label
- {machine: legacy-mt27710-down, locked: true, dpdk: true}
- {machine: legacy-xxv710, locked: true, dpdk: true, want: intel-25G}
- {machine: legacy-x710, locked: true, dpdk: true, want: intel-10G}
- {machine: legacy-82599, locked: true, dpdk: true, want: intel-10G}
- {machine: bare-vm, locked: true, dpdk: true}
- {machine: legacy-x710 as 8086:1581, locked: true, dpdk: true, want: intel-10G}
- {machine: legacy-x710 as 8086:1586, locked: true, dpdk: true, want: intel-10G}
- {machine: legacy-x710 as 8086:1589, locked: true, dpdk: true, want: intel-10G}
- {machine: legacy-x710 as 8086:15ff, locked: true, dpdk: true, want: intel-10G}
# an XL710 is not on the list
- {machine: legacy-x710 as 8086:1583, locked: true, dpdk: true}
# The list decides, not where the cards stand, and the first family of it that is there, not the first with a
# name.
- {machine: legacy-mt27710 + legacy-x710, locked: true, dpdk: true, want: mlnx-25G}
- {machine: legacy-x710 + legacy-mt27710, locked: true, dpdk: true, want: mlnx-25G}
- {machine: legacy-82599 + legacy-x710 + legacy-xxv710, locked: true, dpdk: true, want: intel-25G}
- {machine: legacy-mt27710-down + legacy-82599, locked: true, dpdk: true}
- {machine: legacy-mt27710-down + legacy-xxv710, locked: true, dpdk: true}
# the first port that has a speed
- {machine: legacy-mt27710-down + legacy-mt27710, locked: true, dpdk: true, want: mlnx-25G}
- {machine: legacy-82599, locked: true}
# the detector is not installed: degraded, and no label
- {machine: legacy-82599, dpdk: true}
`) {
		s := e.load(t)
		cards := withCards(t, e.world(t, s, strings.Fields(tt.Machine)[0], demo.Credentials{"bootstrap-token": token}), tt.Machine)
		p := planSite(t, s, openVSwitch(t, cards, tt.Locked, tt.DPDK))

		var got, want []string
		for _, l := range p.Node.Labels {
			if l.Key == key {
				got = append(got, l.Value)
			}
		}
		for _, taint := range p.Node.Taints {
			if taint.Key == key {
				got = append(got, taint.Value+":"+string(taint.Effect))
			}
		}
		if tt.Want != "" {
			want = []string{tt.Want, tt.Want + ":NoSchedule"}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: got label and taint %q, want %q", tt, got, want)
		}
	}
}

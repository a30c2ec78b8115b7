package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
)

// goodThree is a node at generation 3, whose three are good, and whose kubelet is ill on the label bad.
func goodThree(t *testing.T) *machine {
	t.Helper()
	m := goodNode(t)
	for _, label := range []string{"b", "c"} {
		m.relabel(label)
		m.want("run", m.as("", "run"), ended{0, "the kubelet is healthy on it", ""})
	}
	m.sick = func() error {
		if strings.Contains(m.read("/etc/default/kubelet"), "pool=bad") {
			return errors.New("500 Internal Server Error")
		}
		return nil
	}

	return m
}

// The last good generation is damaged in what it keeps: the next older good one comes back.
func TestRottenLastGood(t *testing.T) {
	bad := func(m *machine, boot bool) (res ended) {
		m.relabel("bad")
		if !boot {
			return m.as("", "run")
		}
		m.reboot()
		_, res = m.boot()
		return res
	}
	for _, boot := range []bool{true, false} {
		t.Run(fmt.Sprintf("boot=%t", boot), func(t *testing.T) {
			m := goodThree(t)
			m.damage("generations/3", -2)
			m.want("run", bad(m, boot), ended{50, "", "eneration 4 was ill and was left"})
			if flags := m.read("/etc/default/kubelet"); !strings.Contains(flags, "pool=b ") && !strings.Contains(flags, "pool=b\"") &&
				!strings.Contains(flags, "pool=b\n") {
				t.Errorf("flags: got %s, want those of generation 2", flags)
			}
			if m.gateSays() != "PRELET_GENERATION=5" || m.kubelet.Active != "active" {
				t.Errorf("gate %q, kubelet %+v; want it to run on generation 5", m.gateSays(), m.kubelet)
			}

			m = goodThree(t)
			for gen := 1; gen <= 3; gen++ {
				m.damage(fmt.Sprintf("generations/%d", gen), -2)
			}
			res := bad(m, boot)
			m.want("none is left", res, ended{50, "", "generation 3 is damaged"})
			if strings.Contains(res.errors+res.out, "mixture") || m.gateSays() != "PRELET_GENERATION=4" || m.kubelet.Active != "active" {
				t.Errorf("gate %q, kubelet %+v; want it to run on generation 4, and no word of a mixture:\n%s", m.gateSays(), m.kubelet, res.errors)
			}
		})
	}
}

// By hand a damaged generation is refused before the kubelet is stopped, and the newest good one is one that is not.
func TestRottenByHand(t *testing.T) {
	m := goodThree(t)
	m.damage("generations/2", -2)
	before, pid := m.disk(), m.kubelet.MainPID
	m.want("rollback 2", m.as("", "rollback", "2"), ended{64, "", "generation 2 is damaged"})
	if after := m.disk(); !maps.Equal(before, after) || m.gateSays() == "" || m.kubelet.MainPID != pid {
		t.Errorf("gate %q, kubelet %+v; want nothing changed", m.gateSays(), m.kubelet)
	}
	m.want("doctor", m.as("", "doctor"), ended{m.as("", "doctor").exit, "generation 2 is damaged", ""})
	m.want("rollback", m.as("", "rollback"), ended{0, "with the contents of 1", ""})
}

// The generation in place is damaged in what it keeps, anywhere but in its first line: the next run makes another of
// the files, which are as planned, and the kubelet starts.
func TestRottenInPlace(t *testing.T) {
	m := goodThree(t)
	text, err := os.ReadFile(m.stateDir() + "/generations/3")
	if err != nil {
		t.Fatal(err)
	}
	rest := len(text) - strings.IndexByte(string(text), '\n') - 1
	for at := -rest; at < 0; at += rest/12 + 1 { // from the end: the first lines of two nodes differ in length
		m := goodThree(t)
		m.damage("generations/3", at)
		m.want("doctor", m.as("", "doctor"), ended{m.as("", "doctor").exit, "generation 3 is damaged", ""})
		m.reboot()
		run, verify := m.boot()
		m.want(fmt.Sprintf("run with byte %d of %d changed", at, len(text)), run, ended{0, "Generation 4 is in place", ""})
		m.want("verify", verify, ended{0, "the kubelet is healthy on it", ""})
		if m.gateSays() != "PRELET_GENERATION=4" || len(m.starts) != 1 {
			t.Errorf("gate %q, starts %q; want one start on generation 4", m.gateSays(), m.starts)
		}
		m.want("rollback 0", m.as("", "rollback", "0"), ended{0, "with everything as before prelet", ""})
	}
}

package boot

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

const gpuReady = "example.com/GPUReady"

// condition returns the status and the reason of the condition of the Node, as STATUS(REASON).
func (m *machine) condition() string {
	m.T.Helper()
	var n struct {
		Status struct {
			Conditions []struct{ Type, Status, Reason string }
		}
	}
	if err := json.Unmarshal(m.cluster.Node(nodeName), &n); err != nil {
		m.T.Fatal(err)
	}
	for _, c := range n.Status.Conditions {
		if c.Type == gpuReady {
			return fmt.Sprintf("%s(%s)", c.Status, c.Reason)
		}
	}
	return ""
}

func (m *machine) waitForCondition(what, want string) {
	m.T.Helper()
	m.Within(90*time.Second, what, func() string {
		if got := m.condition(); got != want {
			return fmt.Sprintf("the condition is %s, want %s", got, want)
		}
		return ""
	})
}

// The units report a condition: True after the join, False at the shutdown, True after the next boot, which writes
// nothing; a restart of prelet.service changes nothing. An API server that is away leaves it until it is back.
func TestConditions(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.edit(`stage "restart" "kubelet" {`, "stage \"restart\" \"kubelet\" {\n  condition \""+gpuReady+"\" {}\n")
	m.Boot()
	m.verdict("good")
	m.waitForCondition("after the join", "True(Verified)")

	m.Do("systemctl", "restart", "prelet.service")
	m.waitForCondition("after a restart of prelet.service", "True(Verified)")

	m.Off()
	if got := m.condition(); got != "False(Stopping)" {
		t.Errorf("after the shutdown: got %s, want False(Stopping)", got)
	}
	before := m.disk()
	m.Boot()
	m.waitForCondition("after the second boot", "True(Verified)")
	m.well(1)
	for _, d := range differs(before, m.disk()) {
		t.Errorf("written: %s", d)
	}
	if n := len(m.starts()); n != 2 {
		t.Errorf("got %d starts of the kubelet in two boots, want 2", n)
	}
	m.Within(30*time.Second, "prelet-verify has ended", func() string {
		if state := m.property("prelet-verify", "ActiveState"); state != "inactive" {
			return "it is " + state
		}
		return ""
	})

	// A power cut, and a boot without the API server: False was not patched, and comes when the server is back.
	m.Kill()
	m.cluster.away()
	m.Boot()
	m.running()
	if got := m.condition(); got != "True(Verified)" {
		t.Errorf("while the server is away: got %s, want True(Verified), as before the power cut", got)
	}
	m.Within(60*time.Second, "prelet-verify tries", func() string {
		if state := m.property("prelet-verify", "ActiveState"); state != "active" {
			return "it is " + state
		}
		return ""
	})
	object := m.cluster.Node(nodeName)
	m.cluster.SetNode(nodeName, withoutStatus(t, object)) // somebody made the Node again
	m.cluster.back()
	m.waitForCondition("when the server is back", "True(Verified)")
}

// withoutStatus returns a Node without its status.
func withoutStatus(t *testing.T, object []byte) []byte {
	t.Helper()
	var n map[string]any
	if err := json.Unmarshal(object, &n); err != nil {
		t.Fatal(err)
	}
	delete(n, "status")
	text, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

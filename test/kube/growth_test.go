package kube

import (
	"encoding/json"
	"os"
	"testing"
)

// growthVariable names the file for the result of TestStormGrowth; empty: it is skipped.
const growthVariable = "PRELET_KUBE_STORM_GROWTH"

// growthPoint and growthSample are those of bench/peers.
type growthPoint struct {
	X       int            `json:"x"`
	Samples []growthSample `json:"samples"`
}

type growthSample struct {
	WallMS   float64 `json:"wall_ms"`  // until the last boot was done
	Requests float64 `json:"requests"` // of a boot, on average
}

// TestStormGrowth boots 10 to 1,000 nodes at once against the API server of TestStorm, which stays up.
func TestStormGrowth(t *testing.T) {
	file := os.Getenv(growthVariable)
	if file == "" {
		t.Skip("this boots a thousand nodes: make bench-peers")
	}
	counts := []int{10, 30, 100, 300, 1000}
	const rounds = 3

	c := start(
		t,
		Options{Audit: true, APIServer: []string{"--max-requests-inflight=20", "--max-mutating-requests-inflight=10"}},
	)
	s := newStorm(t, c, counts[len(counts)-1])
	joins, _ := s.command(s.nodes, "-join", c.Prelet)
	if err := joins.Run(); err != nil {
		t.Fatalf("got %v: %s; want no error", err, joins.Stderr)
	}

	points := make([]growthPoint, len(counts))
	for range rounds {
		for i, boots := range counts {
			before := len(s.received())
			cmd, stdout := s.command(s.nodes[:boots])
			if err := cmd.Run(); err != nil {
				t.Fatalf("%d boots: got %v: %s; want no error", boots, err, cmd.Stderr)
			}
			seen := s.received()[before:]
			r := s.check(t, stdout, boots, seen)
			points[i].X = boots
			points[i].Samples = append(points[i].Samples, growthSample{
				WallMS:   r.Max * 1000,
				Requests: float64(len(seen)) / float64(boots),
			})
		}
	}

	text, err := json.Marshal([]map[string]any{{"name": "simultaneous boots", "points": points}})
	must(t, err)
	must(t, os.WriteFile(file, text, 0o644))
}

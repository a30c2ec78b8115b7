package value

import "testing"

// TestHolds refuses what holds a secret, and not what has a short one by chance.
func TestHolds(t *testing.T) {
	r := NewRedactor()
	for _, s := range []string{"CANARY-k2 \"q\" <&>\n", "true", "abc"} {
		r.Add([]byte(s))
	}
	for text, want := range map[string]bool{
		"x: CANARY-k2 \"q\" <&>":              true,
		"x: CANARY-k2 \\\"q\\\" <\\u0026>":    false, // half of each form
		`{"text":"CANARY-k2 \"q\" <&>"}`:      true,
		"Q0FOQVJZLWsyICJxIiA8Jj4=":            true,
		"failSwapOn: true":                    false,
		"true":                                true,
		" true\n":                             true,
		"abc":                                 false,
		"CANARY-k3":                           false,
		"43414e4152592d6b322022712220 3c263e": false,
		"43414e4152592d6b3220227122203c263e":  true,
	} {
		if got := r.Holds(text); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
	}
}

package value

import "testing"

// TestHolds refuses what holds a secret, and no text for a short one, which may be an ordinary word.
func TestHolds(t *testing.T) {
	r := redactorOf("CANARY-k2 \"q\" <&>\n", "true", "abc")
	for text, want := range map[string]bool{
		"x: CANARY-k2 \"q\" <&>":              true,
		"x: CANARY-k2 \\\"q\\\" <\\u0026>":    false, // half of each form
		`{"text":"CANARY-k2 \"q\" <&>"}`:      true,
		"Q0FOQVJZLWsyICJxIiA8Jj4=":            true,
		"failSwapOn: true":                    false,
		"true":                                false,
		" true\n":                             false,
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

// TestCutSecrets hides what is left of a secret that was cut before anybody looked for it.
func TestCutSecrets(t *testing.T) {
	r := redactorOf("correct horse battery staple")
	for text, want := range map[string]string{
		`x = "correct horse ba"…`:    `x = "(sensitive)"…`,
		"x = correct horse battery…": "x = (sensitive)…",
		"…tery staple is wrong":      "…(sensitive) is wrong",
		`…"ttery staple" and more…`:  `…"(sensitive)" and more…`,
		"it is correct…":             "it is (sensitive)…",
		"…able":                      "…able",
		"corr…":                      "corr…",
		"no secret…":                 "no secret…",
	} {
		if got := r.String(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

package secret

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/testing/table"
)

// TestHolds refuses what holds a secret, and no text for a short one, which may be an ordinary word.
func TestHolds(t *testing.T) {
	r := redactorOf("CANARY-k2 \"q\" <&>\n", "true", "abc")
	for text, want := range table.YAML[map[string]bool](t, `
'x: CANARY-k2 "q" <&>': true
# half of each form
'x: CANARY-k2 \"q\" <\u0026>': false
'{"text":"CANARY-k2 \"q\" <&>"}': true
Q0FOQVJZLWsyICJxIiA8Jj4=: true
'failSwapOn: true': false
'true': false
" true\n": false
abc: false
CANARY-k3: false
43414e4152592d6b322022712220 3c263e: false
43414e4152592d6b3220227122203c263e: true
`) {
		if got := r.Holds(text); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
	}
}

// TestCutSecrets hides what is left of a secret that was cut before anybody looked for it.
func TestCutSecrets(t *testing.T) {
	r := redactorOf("correct horse battery staple")
	for text, want := range table.YAML[map[string]string](t, `
x = "correct horse ba"…: x = "(sensitive)"…
x = correct horse battery…: x = (sensitive)…
…tery staple is wrong: …(sensitive) is wrong
…"ttery staple" and more…: …"(sensitive)" and more…
it is correct…: it is (sensitive)…
…able: …able
corr…: corr…
no secret…: no secret…
`) {
		if got := r.String(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestTail cuts an output at each byte of a secret: no part of it is left.
func TestTail(t *testing.T) {
	const secret = "canary.é0canary1secret23"
	const most = 100
	r := redactorOf(secret)
	for after := range most + len(secret) {
		for size := 1; size < 3*most; size += 50 {
			tail := Tail{Most: most}
			output := strings.Repeat("x", 200) + secret + strings.Repeat("y", after)
			for at := 0; at < len(output); at += size {
				_, _ = tail.Write([]byte(output[at:min(at+size, len(output))]))
			}
			got := r.String(texts.Escape(tail.Text()))
			if !strings.HasPrefix(got, ellipsis) || !strings.HasSuffix(got, strings.Repeat("y", min(after, most))) {
				t.Fatalf("%d bytes after the secret: got %q, want an ellipsis and the last bytes", after, got)
			}
			for at := range len(secret) - minCut {
				if part := secret[at : at+minCut]; strings.Contains(got, part) {
					t.Fatalf("%d bytes after the secret: got %q in %q, want no part of it", after, part, got)
				}
			}
		}
	}

	tail := Tail{Most: 3}
	_, _ = tail.Write([]byte("all"))
	if got := tail.Text(); got != "all" {
		t.Errorf("an output that is not cut: got %q, want it as it is", got)
	}
}

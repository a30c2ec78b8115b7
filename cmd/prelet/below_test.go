package main

import "testing"

// TestNameRoot: each command of a message that has --root gets the one of the command line.
func TestNameRoot(t *testing.T) {
	for text, want := range map[string]string{
		"prelet seal --yes removes it":                  "prelet seal --root '/mnt/a b' --yes removes it",
		"Try: `prelet detectors lock /x`":               "Try: `prelet detectors lock --root '/mnt/a b' /x`",
		"prelet history diff 1, or prelet history":      "prelet history diff --root '/mnt/a b' 1, or prelet history --root '/mnt/a b'",
		"only root may change what prelet runs":         "only root may change what prelet runs",
		"prelet explain code/identity":                  "prelet explain code/identity",
		"prelet rollback --release --root /mnt/x":       "prelet rollback --release --root /mnt/x",
		"prelet fmt, prelet verify":                     "prelet fmt, prelet verify",
		"systemctl start kubelet; prelet run --retry":   "systemctl start kubelet; prelet run --root '/mnt/a b' --retry",
		"rm -r /mnt/x/var/lib/prelet, then prelet seal": "rm -r /mnt/x/var/lib/prelet, then prelet seal --root '/mnt/a b'",
	} {
		a := cli{below: "/mnt/a b"}
		if got := a.nameRoot(text); got != want {
			t.Errorf("%q below /mnt/a b: got %q, want %q", text, got, want)
		}
		if got := (&cli{}).nameRoot(text); got != text {
			t.Errorf("%q without --root: got %q, want the same", text, got)
		}
	}
}

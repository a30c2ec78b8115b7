package commit

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// TestUnmarkedSecrets refuses a secret in what others may read, and in no file that is known to hold one.
func TestUnmarkedSecrets(t *testing.T) {
	const canary = "CANARY-k2"
	text := func(v cty.Value) secret.Text {
		out, err := secret.TextOf(v)
		must(t, err)
		return out
	}
	at := []origin.Origin{{Range: hcl.Range{Filename: "a.hcl", Start: hcl.Pos{Line: 3, Column: 5}}}}
	file := func(path string, v cty.Value) desired.Node {
		return desired.Node{Files: []desired.File{{Path: path, Kind: desired.Regular, Text: text(v), Origins: at}}}
	}
	r := secret.NewRedactor()
	r.Add([]byte(canary))

	for name, c := range map[string]struct {
		node desired.Node
		want string
	}{
		"nothing":      {file("/etc/a", cty.StringVal("plain")), ""},
		"a credential": {file("/etc/a", secret.Credential("k2")), ""},
		"label":        {desired.Node{Labels: []desired.Label{{Key: "a", Value: canary, Origins: at}}}, "A label would hold"},
		"taint":        {desired.Node{Taints: []desired.Taint{{Taint: kubelet.Taint{Key: "a", Value: canary, Effect: "NoSchedule"}, Origins: at}}}, "A taint would hold"},
		"flag":         {desired.Node{Flags: []desired.Flag{{Name: "x", Value: "a=" + canary, Origins: at}}}, "Flag --x would hold"},
		"file":         {file("/etc/a", cty.StringVal("password="+canary+"\n")), "/etc/a would hold"},
		"path":         {file("/etc/"+canary, cty.StringVal("plain")), "The path of a file would hold"},
	} {
		err := checkUnmarked(ProposalInput{Plan: &evaluate.Plan{Node: c.node}, Redactor: r})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: got %v, want none", name, err)
		case c.want != "" && (fault.CodeOf(err) != fault.Sensitive || !strings.HasPrefix(err.Error(), "a.hcl:3:5: "+c.want) || strings.Contains(err.Error(), canary)):
			t.Errorf("%s: got %v, want %q at a.hcl:3:5", name, err, c.want)
		}
	}
}

// TestBearerTokens accepts a token that can be sent and that needs no escapes in a kubeconfig.
func TestBearerTokens(t *testing.T) {
	for token, want := range map[string]bool{
		"abcdef.0123456789abcdef": true, "eyJhbGci.e30.c2ln_-": true,
		"": false, "a b": false, "a\n": false, "ä": false, `tok"q`: false, `tok\b`: false,
	} {
		if got := isToken([]byte(token)); got != want {
			t.Errorf("isToken(%q): got %t, want %t", token, got, want)
		}
	}
}

package lang

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/testing/table"
)

func TestSoundsSecret(t *testing.T) {
	for name, want := range table.YAML[map[string]bool](t, `
password: true
db_password: true
dbPassword: true
join-token: true
private_key: true
api_key: true
secret: true
token_id: false
zone: false
key: false
public_key: false
password_file: false
pinned: false
tokens: false
`) {
		if got := soundsSecret(name); got != want {
			t.Errorf("%s: got %t, want %t", name, got, want)
		}
	}
	_, diags := parseText(
		t,
		"-- a.hcl --\nvariable \"pw\" { type = string }\nvariable \"token\" {\n  type = string\n  sensitive = "+
			"true\n}\n",
	)
	if len(diags) != 1 || !origin.IsNote(diags[0]) || !strings.Contains(show(diags), "var.pw sounds like a secret") {
		t.Errorf("got %s, want one note about var.pw", show(diags))
	}
}

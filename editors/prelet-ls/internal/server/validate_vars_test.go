package server

import (
	"fmt"
	"strings"
	"testing"
)

// TestSecretsInVarsFiles: no diagnostic has the value of a sensitive variable that somebody wrote into a vars file, also
// in a form in which prelet cannot know that.
func TestSecretsInVarsFiles(t *testing.T) {
	const site, vars = "/none/a.hcl", "/none/b.prelet.vars"
	for _, form := range []string{
		"pw = %q\n", "pww = %q\n", "pw = \"x\"\npw = %q\n", "pw = \"%s\n", "pw = %s\"\n", "pw = '%s'\n", "pw: %s\n",
		"{ \"pw\": %q }\n", "export pw=%s\n", "PW=%s\n", "pw = \"%s\" \x00\n", "pw { value = %q }\n", "pw = <<%s\n",
		"pw { a { b = %q } }\n", "%s { a { b = 1 } }\n", "var.pw = %q\n", "pw = \"${if %s}\"\n", "pw = \"%%{ if %s }\"\n",
		"pw = \"%%{ %s }\"\n", "pw = 1.%s\n", "pw = credential(%s)\n",
	} {
		found := Validate(Request{File: vars, Places: []string{site, vars}, Texts: map[string]string{
			site: "variable \"pw\" {\n  sensitive = true\n}\n",
			vars: fmt.Sprintf(form, "c4nary9"),
		}})
		if got := fmt.Sprintf("%+v", found); len(found[vars]) == 0 || strings.Contains(got, "c4nary9") {
			t.Errorf("%q: got %s; want diagnostics of the vars file without the secret", form, got)
		}
	}
}

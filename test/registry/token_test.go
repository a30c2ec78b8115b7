package registry

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distribution/distribution/v3/configuration"

	_ "github.com/distribution/distribution/v3/registry/auth/token"
)

const (
	service       = "registry.test"
	issuer        = "tokens.test"
	identityToken = "canary-identity"
)

// manner is how a token server answers.
type manner int

const (
	right    manner = iota
	expired         // the token ended an hour ago
	foreign         // another key has signed it
	withheld        // no token
	limited         // the token allows nothing, as for a person without access
)

// tokenServer gives tokens of the distribution project's specification to the user ci, by password or identity token.
type tokenServer struct {
	mu     sync.Mutex
	manner manner
	asked  int
}

func (s *tokenServer) set(m manner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.manner = m
}

func (s *tokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	user, given, isBasic := r.BasicAuth()
	isKnown := isBasic && user == "ci" && given == password ||
		r.Method == http.MethodPost && r.PostFormValue("refresh_token") == identityToken
	scopes := strings.Join(r.URL.Query()["scope"], " ")
	if r.Method == http.MethodPost {
		scopes = r.PostFormValue("scope")
	}

	m := s.manner
	if !isBasic && r.Method == http.MethodGet {
		m = limited // a person without a password
	} else if !isKnown {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"errors":[{"code":"UNAUTHORIZED","message":"wrong password"}]}`)
		return
	}
	token := sign(m, scopes)
	if m == withheld {
		token = ""
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"token": token, "access_token": token})
}

func keyOf(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(seed)), ed25519.SeedSize)))
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}

	return base64.RawURLEncoding.EncodeToString(text)
}

// sign returns a token for scopes such as repository:sites/gpu:pull,push.
func sign(m manner, scopes string) string {
	type access struct {
		Type    string   `json:"type"`
		Name    string   `json:"name"`
		Actions []string `json:"actions"`
	}
	var all []access
	for _, scope := range strings.Fields(scopes) {
		kind, rest, _ := strings.Cut(scope, ":")
		at := strings.LastIndex(rest, ":")
		if at > 0 && m != limited {
			all = append(all, access{kind, rest[:at], strings.Split(rest[at+1:], ",")})
		}
	}

	now, seed, key := time.Now(), byte('a'), "test"
	if m == expired {
		now = now.Add(-2 * time.Hour)
	}
	if m == foreign {
		seed, key = 'b', "other"
	}
	body := encode(map[string]string{"typ": "JWT", "alg": "EdDSA", "kid": key}) + "." + encode(map[string]any{
		"iss": issuer, "sub": "ci", "aud": service, "jti": "1", "access": all,
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	})

	return body + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(keyOf(seed), []byte(body)))
}

// serveTokens starts a registry that asks for tokens, and its token server on another port.
func serveTokens(t *testing.T, folder string) (s *tokenServer, host string) {
	t.Helper()
	s = &tokenServer{}
	realm := httptest.NewTLSServer(s) // its certificate is that of the registry
	t.Cleanup(realm.Close)
	public := keyOf('a').Public().(ed25519.PublicKey)
	keys := filepath.Join(folder, "keys.json")
	write(t, keys, `{"keys":[{"kty":"OKP","crv":"Ed25519","use":"sig","kid":"test","x":"`+
		base64.RawURLEncoding.EncodeToString(public)+`"}]}`)
	host, _ = serveWith(t, folder, configuration.Auth{"token": {
		"realm": realm.URL + "/token", "service": service, "issuer": issuer, "jwks": keys,
	}})

	return s, host
}

// TestTokens pushes and pulls by a token, for a password and for an identity token; a node updates its site by one.
func TestTokens(t *testing.T) {
	for name, auth := range map[string]string{
		"password":       `{"username":"ci","password":"` + password + `"}`,
		"identity token": `{"identitytoken":"` + identityToken + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			s, host := serveTokens(t, folder)
			loginAs(t, folder, host, auth)
			write(t, filepath.Join(folder, "site/a.hcl"), "locals {\n  a = 1\n}\n")
			out, _ := prelet(t, folder, 0, "push", "site", host+"/sites/gpu:stable")
			prelet(t, folder, 0, "pull", host+"/sites/gpu:stable", "new")

			root := node(t, folder, strings.TrimSpace(out))
			out, _ = prelet(t, folder, 0, "site", "update", "--root", root)
			entries, err := filepath.Glob(filepath.Join(root, "var/lib/prelet/sites/sha256-*/a.hcl"))
			if !strings.Contains(out, "Stored the site sha256:") || len(entries) != 1 {
				t.Errorf("site update: got %q and %q, %v; want the site stored", out, entries, err)
			}
			if s.asked < 3 {
				t.Errorf("tokens: got %d, want one for each command", s.asked)
			}
		})
	}
}

// node makes the root of a node whose image names a place.
func node(t *testing.T, folder, from string) string {
	t.Helper()
	root := filepath.Join(folder, "root")
	ca, err := os.ReadFile(filepath.Join(folder, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "etc/ca.pem"), string(ca))
	write(t, filepath.Join(root, "usr/lib/prelet/site/delivery.hcl"),
		"delivery {\n  from    = [\""+from+"\"]\n  ca_file = \"/etc/ca.pem\"\n}\n")

	return root
}

// TestRefusedTokens checks the message about each token that is of no use, for a person and on a node.
func TestRefusedTokens(t *testing.T) {
	folder := t.TempDir()
	s, host := serveTokens(t, folder)
	login(t, folder, host, password)
	write(t, filepath.Join(folder, "site/a.hcl"), "locals {\n  a = 1\n}\n")
	out, _ := prelet(t, folder, 0, "push", "site", host+"/sites/gpu:stable")
	root := node(t, folder, strings.TrimSpace(out))

	const (
		clocks   = "It refuses a token of its own token server: compare their clocks and keys"
		password = "Give a password that may "
	)
	for _, row := range []struct {
		name     string
		manner   manner
		password string
		status   int
		texts    []string
	}{
		{"wrong password", right, "canary-wrong", 22, []string{"HTTP 401", "wrong password", password}},
		{"no password", right, "", 22, []string{"HTTP 401", password}},
		{"limited", limited, "canary-password", 22, []string{"HTTP 401", password}},
		{"expired", expired, "canary-password", 22, []string{"HTTP 401", clocks}},
		{"of another key", foreign, "canary-password", 22, []string{"HTTP 401", clocks}},
		{"withheld", withheld, "canary-password", 20, []string{"empty token"}},
	} {
		s.set(row.manner)
		login(t, folder, host, row.password)
		for where, args := range map[string][]string{
			"--credentials FILE": {"pull", host + "/sites/gpu:stable", "new"},
			"--credentials":      {"push", "site", host + "/sites/gpu:stable"},
			"the credential prelet.registry of prelet-site.service": {"site", "update", "--root", root},
		} {
			_, notes := prelet(t, folder, row.status, args...)
			notes = strings.Join(strings.Fields(notes), " ")
			for _, text := range row.texts {
				if text == password {
					text = where
				}
				if !strings.Contains(notes, text) {
					t.Errorf("%s, %s: got %q, want %q", row.name, args[0], notes, text)
				}
			}
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "new")); err == nil {
		t.Error("got a folder of a pull that failed, want none")
	}
}

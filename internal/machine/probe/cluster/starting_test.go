package cluster

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/testing/table"

	"github.com/prelet/prelet/internal/fault"
)

// starting is an API server that has just been started: it refuses the first n requests with status, and says that it
// is not ready.
func starting(t *testing.T, status, n int) hostile {
	h := newHostile(t, nil)
	refused := 0
	h.Intercept = func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if r.URL.Path == "/readyz" {
			if r.Header.Get("Authorization") != "" {
				t.Error("/readyz was sent a credential")
			}
			if refused < n {
				w.WriteHeader(http.StatusInternalServerError)
			}
			return true
		}
		if refused++; refused <= n {
			return answerWith(status)(w, r, 0)
		}
		return false
	}
	return h
}

func TestStartingServer(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusUnauthorized} {
		for way, read := range ways {
			if err := read(starting(t, status, 3), t, fast()); err != nil {
				t.Errorf("%s, %d: got %v, want no error", way, status, err)
			}
		}
	}
	t.Run("it never is ready", func(t *testing.T) {
		h := starting(t, http.StatusForbidden, 1<<30)
		err := h.read(t, givingUp(fast(), 3))
		e := want{Code: fault.ClusterUnreachable, Retry: true, Text: []string{"as the test wishes", "not ready yet"}}.check(t, err)
		if !strings.Contains(e.Next, "/readyz") || strings.Contains(e.Next, "role") {
			t.Errorf("got the hint %q, want to look at /readyz, and no role: everybody is refused", e.Next)
		}
	})
	t.Run("it says when", func(t *testing.T) { // in the refusal, in the response of /readyz, or in both
		for _, c := range table.YAML[[]struct {
			Refusal, Readyz string
			Want            table.Duration
		}](t, `
- {readyz: '20', want: 20s}
- {refusal: '7', readyz: '20', want: 20s}
- {refusal: '20', readyz: '7', want: 20s}
- {}
`) {
			h := newHostile(t, nil)
			h.Intercept = func(w http.ResponseWriter, r *http.Request, n int) bool {
				if r.URL.Path == "/readyz" {
					return answerWith(http.StatusTooManyRequests, "Retry-After", c.Readyz)(w, r, n)
				}
				return n == 1 && answerWith(http.StatusForbidden, "Retry-After", c.Refusal)(w, r, n)
			}
			opts := fast()
			slept := recordSleeps(&opts)
			if _, err := fetchConfigMap(within(t, time.Hour), h.object(), opts); err != nil {
				t.Error(err)
			}
			if len(*slept) != 1 || (*slept)[0].Round(time.Second) != c.Want.Duration {
				t.Errorf("Retry-After %q and %q: got waits %v, want one of %v", c.Refusal, c.Readyz, *slept, c.Want)
			}
		}
	})
	t.Run("it does not say", func(t *testing.T) { // the roles that let anybody ask /readyz are not loaded either
		h := newHostile(t, nil)
		h.Intercept = first(8, answerWith(403))
		if err := h.read(t, fast()); err != nil {
			t.Error(err)
		}
		h.Intercept = answerWith(403)
		err := h.read(t, givingUp(fast(), 5))
		want{Code: fault.ClusterDenied, Retry: true, Text: []string{"HTTP 403"}}.check(t, err)
	})
	t.Run("ready in between", func(t *testing.T) {
		h := newHostile(t, nil)
		h.Intercept = first(1, answerWith(403))
		if err := h.read(t, fast()); err != nil {
			t.Error(err)
		}
	})
	t.Run("a refusal of a server that is ready", func(t *testing.T) {
		h := newHostile(t, nil)
		h.Intercept = exceptReadyz(answerWith(403))
		err := h.read(t, fast())
		want{Code: fault.ClusterDenied, Text: []string{"HTTP 403"}}.check(t, err)
		if n := len(h.Requests()); n != 3 {
			t.Errorf("%d requests, want the request, /readyz and the request once more", n)
		}
	})
}

// The answer says that the identity of a node that has joined was refused, and not that it may not read an object.
func TestRefusedWithToken(t *testing.T) {
	h := newHostile(t, nil)
	for status, want := range map[int]string{401: "HTTP 401", 403: "", 200: ""} {
		h.Intercept = func(w http.ResponseWriter, r *http.Request, n int) bool {
			isOwn := r.Header.Get("Authorization") == "Bearer a-node's-own"
			return isOwn && status != 200 && answerWith(status)(w, r, n)
		}
		req := h.object()
		req.Token = readTestToken
		if status != 200 {
			req.Kubeconfig = h.kubeconfig(t, nil, object{"token": "a-node's-own"}, nil)
		}
		got, err := fetchConfigMap(within(t, time.Minute), req, fast())
		must(t, err)
		if !strings.HasPrefix(got.Refused, want) || want == "" && got.Refused != "" {
			t.Errorf("after %d: got %q, want %q", status, got.Refused, want)
		}
	}
}

// A node that has joined and is refused gets a message about that, and not only that its token has expired, which it
// does not need.
func TestRefusedWithoutToken(t *testing.T) {
	h := newHostile(t, nil)
	h.Intercept = exceptReadyz(answerWith(403))
	req := h.object()
	req.Kubeconfig = h.kubeconfig(t, nil, object{"token": "a-node's-own"}, nil)
	gone := errors.New("credential \"bootstrap-token\": file does not exist")
	req.Token = func(context.Context) (string, error) { return "", gone }
	err := readObject(t, req, fast())
	want{Code: fault.ClusterDenied, Text: []string{"HTTP 403", "kubectl -n kube-system create role", "the bootstrap token cannot be read"}}.check(t, err)
	if errors.Is(err, gone) {
		t.Error("the refusal is lost")
	}
}

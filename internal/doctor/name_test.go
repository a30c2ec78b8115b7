package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// TestResolveName checks which names of a node are looked up.
func TestResolveName(t *testing.T) {
	missing := errors.New("no such host")
	for _, c := range []struct {
		name, nsswitch, node string
		answer               error
		want                 error
		isAsked              bool
	}{
		{"it resolves", "", "node-7", nil, nil, true},
		{"it does not", "", "node-7", missing, missing, true},
		{"no name", "", "", missing, nil, false},
		{"nss-myhostname", "passwd: files\nhosts:\tfiles myhostname resolve dns\n", "node-7", missing, nil, false},
		{"nss-myhostname, and another name", "hosts: files myhostname\n", "node-8", missing, missing, true},
		{"a comment", "#hosts: myhostname\nhosts: files dns # myhostname\n", "node-7", missing, missing, true},
		{"garbage", "hosts\x00: myhostname\n" + strings.Repeat("hosts: files\n", 1<<12), "node-7", missing, missing, true},
		{"a name that is garbage", "", "a\x00b\x1b[2J", missing, missing, true},
	} {
		root := newImage(t, map[string]string{"/etc/nsswitch.conf": c.nsswitch})
		isAsked := false
		lookup := func(context.Context, string) ([]string, error) {
			isAsked = true
			return nil, c.answer
		}
		got := ResolveName(t.Context(), root, lookup, c.node, "Node-7")
		if got != c.want || isAsked != c.isAsked {
			t.Errorf("%s: got %v, asked %t; want %v, %t", c.name, got, isAsked, c.want, c.isAsked)
		}
	}
}

// TestResolveNameIsBounded checks that a name server that does not answer costs two seconds.
func TestResolveNameIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		lookup := func(ctx context.Context, _ string) ([]string, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		err := ResolveName(t.Context(), nodefile.Root(t.TempDir()), lookup, "node-7", "node-7")
		if took := time.Since(begin); err == nil || took != nameTime {
			t.Errorf("got %v after %s, want an error after %s", err, took, nameTime)
		}
	})
}

package generation

import "testing"

// A file that is to be forgotten is removed by the commit and kept in the generation. It does not come back: not with
// the next plan, which does not name it, not with a rollback to a generation that never had it, and not with "as
// before prelet". A file that was created again stays.
func TestForget(t *testing.T) {
	const id, key = "/etc/kubernetes/kubelet.conf", "/etc/kubernetes/key.pem"
	for name, leave := range map[string]func(b *box, s *Store) error{
		"the next plan": func(b *box, s *Store) error { b.apply(s, plan("p3", file("/etc/kubernetes/a", "a3"))); return nil },
		"back to 1":     func(_ *box, s *Store) error { _, err := s.Rollback(2, 1, "unhealthy", false); return err },
		"back to 0":     func(_ *box, s *Store) error { _, err := s.Rollback(2, 0, "unhealthy", false); return err },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			b.write(id, "old", 0o600)
			b.write(key, "old key", 0o600)
			s := b.open()
			b.apply(s, plan("p1", file("/etc/kubernetes/a", "a1")))
			if err := s.Good(1, nil); err != nil {
				t.Fatal(err)
			}
			gone := func(p string) Target {
				return Target{Path: p, Mode: Keep, UID: Keep, GID: Keep, Secret: true, Forget: true}
			}
			b.apply(s, plan("p2", file("/etc/kubernetes/a", "a2"), gone(id), gone(key)))
			if b.read(id) != "absent" || b.read(key) != "absent" {
				t.Fatal("it is still there")
			}
			if got, err := s.Content(Checksum([]byte("old key"))); err != nil || string(got) != "old key" {
				t.Errorf("got %q, %v; want the old key in the generation", got, err)
			}
			b.write(id, "new", 0o600)
			if err := leave(b, s); err != nil {
				t.Fatal(err)
			}
			if b.read(id) != "new" || b.read(key) != "absent" {
				t.Errorf("got %q, %q; want the new id, and no key", b.read(id), b.read(key))
			}
		})
	}
	b := newBox(t)
	if _, err := b.open().
		Begin(plan("p", with(file("/etc/kubernetes/a", "a"), func(t *Target) { t.Forget = true }))); err == nil {
		t.Error("a file that is to be there is to be forgotten")
	}
}

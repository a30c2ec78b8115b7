package generation

import (
	"testing"
)

// TestReleaseIsPartOfTheCommit kills a commit that releases what is held, at each operation: either it was committed
// and nothing is held, or neither, also after the recovery.
func TestReleaseIsPartOfTheCommit(t *testing.T) {
	for _, unjudged := range [][]byte{nil, []byte(`{}`)} {
		ends := map[bool]int{}

		for k := 1; ; k++ {
			b := newBox(t)

			b.write("/etc/a", "old", 0o644)

			s, hook := b.openHooked()
			if err := s.Hold("p1", "crash loop"); err != nil {
				t.Fatal(err)
			}

			if err := s.Pin(1, "by hand"); err != nil {
				t.Fatal(err)
			}

			*hook = (&killAt{at: k}).hook
			p := plan("p1", file("/etc/a", "new"))
			p.Release, p.Unjudged = true, unjudged
			_, err := apply(s, p)
			s.Close()

			for _, recovered := range []bool{false, true} {
				s := b.open()
				if recovered {
					if _, err := s.Recover(); err != nil {
						t.Fatal(err)
					}
				}

				cur, currentErr := s.Current()
				j, journalErr := s.Journal()

				if currentErr != nil || journalErr != nil {
					t.Fatal(currentErr, journalErr)
				}

				committed := j != nil || cur != nil
				_, held := s.Held("p1")

				_, _, pinned := s.Pinned()
				if held == committed || pinned == committed {
					t.Errorf(
						"killed at operation %d, recovered %t: committed %t, held %t, pinned %t; want held and "+
							"pinned until the commit",
						k,
						recovered,
						committed,
						held,
						pinned,
					)
				}

				ends[committed]++
				s.Close()
			}

			if err == nil {
				break
			}
		}

		if ends[true] == 0 || ends[false] == 0 {
			t.Errorf("got %v, want kills on both sides of the commit", ends)
		}
	}
}

// TestRestoreHoldsIsOneWrite kills the restoration of what was held at each operation: what is held is the old or the
// new, and never nothing.
func TestRestoreHoldsIsOneWrite(t *testing.T) {
	for k := 1; ; k++ {
		b := newBox(t)
		s, hook := b.openHooked()

		if err := s.Hold("p1", "crash loop"); err != nil {
			t.Fatal(err)
		}

		if err := s.Pin(1, "by hand"); err != nil {
			t.Fatal(err)
		}

		was, err := s.Holds()
		if err != nil {
			t.Fatal(err)
		}

		if err := s.Pin(2, "by hand again"); err != nil {
			t.Fatal(err)
		}

		*hook = (&killAt{at: k}).hook
		err = s.RestoreHolds(was)
		s.Close()

		s = b.open()
		_, held := s.Held("p1")
		gen, _, pinned := s.Pinned()
		s.Close()

		if !held || !pinned || err == nil && gen != 1 {
			t.Errorf("killed at operation %d: held %t, pinned %t on %d; want both held", k, held, pinned, gen)
		}

		if err == nil {
			return
		}
	}
}

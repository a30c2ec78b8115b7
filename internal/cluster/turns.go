package cluster

import "time"

// turns says which server of a list is asked next, and when. Each is asked once a round, one after another. A server that asked us to wait
// is not asked before that; the others are, at once.
type turns struct {
	pace pace
	of   []turn
}

type turn struct {
	done   bool      // asked in this round, and it did not say when to come again
	before time.Time // it must not be asked before; zero: it may
	last   *failure
	wait
}

// wait is how long a failure makes us wait.
type wait struct {
	asked       time.Duration // so long the server asked for
	least, most time.Duration // from here to there it is chance
	pause       time.Duration // what chance made of it
}

// next is the server after i that may be asked now, in this round; -1: the round is over.
func (t *turns) next(i int, now time.Time) int {
	for k := range t.of {
		j := (i + 1 + k) % len(t.of)
		if !t.of[j].done && !t.of[j].before.After(now) {
			return j
		}
	}
	return -1
}

// left counts the servers that can still be asked in this round, i among them.
func (t *turns) left(i int, deadline time.Time) int {
	n := 1
	for j := range t.of {
		if j != i && !t.of[j].done && t.of[j].before.Before(deadline) {
			n++
		}
	}
	return n
}

// failed notes the failure of server i, and says how long is waited until the next attempt, and because of which server.
func (t *turns) failed(i int, f *failure, now, deadline time.Time) (why int, w wait) {
	left := deadline.Sub(now)
	at := &t.of[i]
	*at = turn{done: f.after == 0, last: f}
	if f.after > 0 {
		at.wait = t.pace.wait(f, left)
		at.before = now.Add(at.pause)
	}
	if t.next(i, now) >= 0 {
		if !f.elsewhere() {
			if w = t.pace.wait(f, left); w.pause < left {
				return i, w
			}
		}
		return i, wait{asked: at.asked}
	}
	t.endRound(i, now, left)
	why = i
	for j := range t.of {
		if t.of[j].before.Before(t.of[why].before) {
			why = j
		}
	}
	w = t.of[why].wait
	if rest := t.of[why].before.Sub(now); rest != w.pause { // some of it has passed
		w.least, w.most, w.pause = rest, rest, rest
	}
	return why, w
}

// endRound lets those wait together that were asked in this round, i the last, and did not say for how long.
func (t *turns) endRound(i int, now time.Time, left time.Duration) {
	var w wait
	paced := false
	for k := range t.of {
		if u := &t.of[(i+len(t.of)-k)%len(t.of)]; u.done {
			if !paced {
				w, paced = t.pace.wait(u.last, left), true
			}
			u.done, u.wait, u.before = false, w, now.Add(w.pause)
		}
	}
}

// waited notes that we waited until then.
func (t *turns) waited(until time.Time) {
	for j := range t.of {
		if u := &t.of[j]; !u.before.After(until) {
			u.before = time.Time{}
		}
	}
}

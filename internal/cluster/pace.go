package cluster

import "time"

// Limits of a wait that no option moves.
const (
	// maxRetryAfter is what a server may ask us to wait. API Priority and Fairness asks for 32 s at most; what asks for more is no API server.
	maxRetryAfter = 32 * time.Second
	maxSpread     = 15 * time.Second // what is waited beyond, by chance
	maxSettle     = 5 * time.Second  // how long a server that was away is left alone before that
)

// pace says how long a call waits between its attempts. A wait has a part that must be, and one by chance: whatever happens to a
// server happens to all who ask it in the same moment, and they must not come back in the same one. The chance is as wide as there is
// reason to think that many wait: each request that is turned away is one more, and a server that has much to do gets to it last.
type pace struct {
	opts    *Options
	backoff time.Duration
	spread  time.Duration // over which those come back whom a server turned away
}

// wait is how long, of the time that is left.
func (p *pace) wait(f *failure, left time.Duration) wait {
	var least, chance, asked time.Duration
	longest := p.opts.BackoffMax
	switch {
	case f.after > 0:
		// In full, and then over four times as long, because a server that turns away has more waiting than it can serve until then:
		// its queues hold some seconds. Who is refused once waits three seconds for the one that API servers ask for.
		asked = time.Duration(f.after) * time.Second
		p.spread = min(max(2*p.spread, 4*asked), maxSpread)
		least, chance = asked, p.spread
	case f.back > 0:
		// An API server that was restarted shakes hands for some seconds before it knows anybody; nothing that was away for less than one
		// was restarted. The longer it was away, the more are waiting for it.
		wait := maxSettle
		if f.back < time.Second {
			wait = f.back
		}
		least, chance = settled(wait, left), min(max(f.back, wait), maxSpread)
	case f.busy > 0:
		// Those who came before wait, too, and a handshake is followed by up to three requests.
		chance = min(3*f.busy, maxSpread)
	case f.starting: // each try before it has started is for nothing
		p.spread = min(max(2*p.spread, longest), 3*longest)
		least, chance = settled(longest/2, left), p.spread
	default:
		least, chance = p.backoff/2, p.backoff/2
		p.backoff = min(2*p.backoff, longest)
	}
	chance = min(chance, max(left-least, 0)/2)
	return wait{asked: asked, least: least, most: least + chance, pause: least + time.Duration(p.opts.Rand()*float64(chance))}
}

// settled leaves time for another attempt.
func settled(wait, left time.Duration) time.Duration { return min(wait, left/2) }

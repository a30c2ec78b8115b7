package fleet

import (
	"cmp"
	"math/big"
	"math/bits"
	"slices"

	"github.com/prelet/prelet/internal/lab/compare"
)

// Trait is something that a group has or lacks: a change, or a message as a change of kind "diagnostic".
type Trait struct {
	compare.NodeChange
	Lacks bool // the group has no change of this kind and name
}

// setCommon sets what all groups that change have. A report shows it once.
func (r *FleetEffect) setCommon() {
	r.Common = Group{}

	changed := slices.DeleteFunc(slices.Clone(r.Groups), func(g Group) bool { return g.State != Changed })
	if len(changed) < 2 {
		return
	}

	common := changed[0]
	for _, g := range changed[1:] {
		common.Count += g.Count
		common.Restarts += g.Restarts
		common.Drains += g.Drains
		common.Waits += g.Waits
		common.Changes = selectBy(common.Changes, g.Changes, shown, true)
		common.Messages = selectBy(common.Messages, g.Messages, same, true)
	}

	// A note is common only if it is true of all machines.
	common.Restarts *= count(common.Restarts == common.Count)
	common.Drains *= count(common.Drains == common.Count)
	common.Waits *= count(common.Waits == common.Count)
	common.Degraded, common.Machines = 0, nil
	r.Common = common
}

// Own returns a group without the changes and messages that all changed groups share.
func (r *FleetEffect) Own(g Group) Group {
	if g.State != Changed {
		return g
	}

	g.Changes = selectBy(g.Changes, r.Common.Changes, shown, false)
	g.Messages = selectBy(g.Messages, r.Common.Messages, same, false)
	g.Restarts *= count(r.Common.Restarts == 0)
	g.Drains *= count(r.Common.Drains == 0)
	g.Waits *= count(r.Common.Waits == 0)

	return g
}

// shown returns a change without what no report shows: a content, and the lines of a file that follow from other
// changes.
func shown(c compare.NodeChange) compare.NodeChange {
	c.Content = ""
	if c.Listed {
		c.Diff, c.Listed = "", false
	}

	return c
}

func same(m Message) Message { return m }

// selectBy returns the elements of a list whose keys are in another list, or those whose keys are not in it.
func selectBy[T, K comparable](list, other []T, key func(T) K, isIn bool) []T {
	keys := map[K]bool{}
	for _, e := range other {
		keys[key(e)] = true
	}

	return slices.DeleteFunc(slices.Clone(list), func(e T) bool { return keys[key(e)] != isIn })
}

// Limits of the search for what sets a group apart.
const (
	maxTraits = 12 // that are tried of those that a group has, and of those that it lacks; the rarest first
	maxAtOnce = 3
)

// setApart finds the fewest traits that only one group has, for each group that changes.
func (r *FleetEffect) setApart() {
	having := map[Trait]*big.Int{} // the numbers of the groups with a trait
	all := new(big.Int)
	for i, g := range r.Groups {
		if g.State != Changed {
			continue
		}

		all.SetBit(all, i, 1)
		for _, t := range g.traits() {
			if having[t] == nil {
				having[t] = new(big.Int)
			}
			having[t].SetBit(having[t], i, 1)
		}
	}

	lacking := map[Trait]*big.Int{}
	for t, groups := range having {
		name := Trait{compare.NodeChange{Kind: t.Kind, Name: t.Name}, true}
		if lacking[name] == nil {
			lacking[name] = new(big.Int).Set(all)
		}
		lacking[name].AndNot(lacking[name], groups)
	}

	for i := range r.Groups {
		if r.Groups[i].State == Changed && countBits(all) > 1 {
			candidates := append(rarest(having, i), rarest(lacking, i)...)
			r.Groups[i].Apart = searchApart(candidates, all)
		}
	}
}

// traits returns the changes of a group, without those of files, which follow from others, and its messages.
func (g *Group) traits() (out []Trait) {
	for _, c := range g.Changes {
		if c.Kind != "file" {
			out = append(out, Trait{NodeChange: c})
		}
	}
	for _, m := range g.Messages {
		out = append(out, Trait{NodeChange: compare.NodeChange{Kind: "diagnostic", Name: m.Code, Action: "create"}})
	}

	return out
}

// candidate is a trait with the groups that have it.
type candidate struct {
	Trait
	groups *big.Int
}

// rarest returns the traits of a group that the fewest groups have, in the order of changes.
func rarest(traits map[Trait]*big.Int, group int) (out []candidate) {
	for t, groups := range traits {
		if groups.Bit(group) == 1 {
			out = append(out, candidate{t, groups})
		}
	}
	slices.SortFunc(out, func(a, b candidate) int {
		return cmp.Or(countBits(a.groups)-countBits(b.groups), a.NodeChange.Compare(b.NodeChange))
	})

	out = out[:min(len(out), maxTraits)]
	slices.SortStableFunc(out, func(a, b candidate) int { return a.NodeChange.Compare(b.NodeChange) })

	return out
}

// searchApart returns the smallest set of candidates that no other of the groups has all of; nil if there is none.
func searchApart(candidates []candidate, groups *big.Int) []Trait {
	for size := 1; size <= maxAtOnce; size++ {
		if found := choose(candidates, groups, size); found != nil {
			slices.SortStableFunc(found, func(a, b Trait) int { return a.NodeChange.Compare(b.NodeChange) })

			return found
		}
	}

	return nil
}

// choose returns the first set of this size that leaves one group; nil if there is none.
func choose(candidates []candidate, left *big.Int, size int) []Trait {
	if size == 0 {
		if countBits(left) == 1 {
			return []Trait{}
		}

		return nil
	}

	for i, c := range candidates {
		both := new(big.Int).And(left, c.groups)
		if countBits(both) == countBits(left) {
			continue
		}
		if found := choose(candidates[i+1:], both, size-1); found != nil {
			return append(found, c.Trait)
		}
	}

	return nil
}

// countBits returns how many groups are in a set.
func countBits(set *big.Int) (n int) {
	for _, w := range set.Bits() {
		n += bits.OnesCount(uint(w))
	}

	return n
}

package wire

import (
	"fmt"

	"github.com/prelet/prelet/plugins/contract"
)

// Bounds of a reply as JSON, above all that an answer may have. They are looked at before anything is decoded, because an empty
// object has two bytes as text and some hundreds in memory.
const (
	maxMembers  = contract.MaxValues // of one list or object
	maxElements = contract.MaxAnswer / 4
	maxDepth    = 4 * contract.MaxDepth
)

// Bounded refuses a reply that has more lists, objects and members than an answer can have. It allocates nothing. What is no JSON
// it may take: who decodes it says so.
func Bounded(reply []byte) error {
	var members [maxDepth]int // by depth, commas so far
	depth, elements := 0, 0
	for i := 0; i < len(reply); i++ {
		switch reply[i] {
		case '"':
			for i++; i < len(reply) && reply[i] != '"'; i++ {
				if reply[i] == '\\' {
					i++
				}
			}
			continue
		case '{', '[':
			if depth++; depth == maxDepth {
				return fmt.Errorf("it is nested more than %d deep", maxDepth)
			}
			members[depth] = 0
		case '}', ']':
			if depth > 0 {
				depth--
			}
			continue
		case ',':
			if members[depth]++; members[depth] == maxMembers {
				return fmt.Errorf("a list or object in it has more than %d members", maxMembers)
			}
		default:
			continue
		}
		if elements++; elements > maxElements {
			return fmt.Errorf("it has more than %d elements", maxElements)
		}
	}
	return nil
}

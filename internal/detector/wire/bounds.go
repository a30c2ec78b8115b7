package wire

import (
	"fmt"

	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/plugins/contract"
)

// Limits of a reply's JSON, higher than those of any valid answer. They are checked before decoding, because an empty
// object has two bytes as text and hundreds in memory.
const (
	maxMembers  = contract.MaxValues // of one list or object
	maxElements = contract.MaxAnswer / 4
	maxDepth    = 4 * contract.MaxDepth
)

// CheckSize returns an error if a reply has more lists, objects and members than a valid answer can have. It allocates
// nothing, and may accept a text that is not JSON: decoding finds that.
func CheckSize(reply []byte) error {
	var commas [maxDepth]int // of the open list or object, by depth
	depth := 0
	elements := 0

	for i := 0; i < len(reply); i++ {
		switch reply[i] {
		case '"':
			i = world.EndOfString(reply, i) - 1
			continue
		case '}', ']':
			depth = max(0, depth-1)
			continue
		case '{', '[':
			depth++
			if depth == maxDepth {
				return fmt.Errorf("it is nested more than %d deep", maxDepth)
			}
			commas[depth] = 0
		case ',':
			commas[depth]++
			if commas[depth] == maxMembers {
				return fmt.Errorf("a list or object in it has more than %d members", maxMembers)
			}
		default:
			continue
		}

		elements++
		if elements > maxElements {
			return fmt.Errorf("it has more than %d elements", maxElements)
		}
	}

	return nil
}

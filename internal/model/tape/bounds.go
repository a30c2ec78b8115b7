package tape

import "fmt"

// Bounds limit a JSON document before it is decoded, because an empty object has two bytes as text and hundreds in
// memory.
type Bounds struct {
	Members  int // of one list or object
	Elements int // lists, objects and members of the document
	Depth    int // lists and objects inside of each other
	Text     int // bytes of one string as it is written; 0: no limit but that of the document
}

// MaxRecording is the largest size of a recording that is read, in bytes, decompressed.
const MaxRecording = 32 << 20

// RecordingBounds are those of a recording and of facts. A DGX H100 has 24 questions, 2,000 elements and 9 levels; ten
// times the size of a machine with 512 network interfaces is below them.
var RecordingBounds = Bounds{Members: 10_000, Elements: 250_000, Depth: maxDepth, Text: 10 << 20}

const maxDepth = 64

// Check returns an error if a document has more lists, objects and members than its bounds. It allocates nothing, and
// may accept a text that is not JSON: decoding finds that.
func (b Bounds) Check(text []byte) error {
	var commas [maxDepth + 1]int // of the open list or object, by depth
	depth := 0
	elements := 0

	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			end := EndOfString(text, i)
			if b.Text > 0 && end-i > b.Text {
				return fmt.Errorf("a text in it has more than %d MiB", b.Text>>20)
			}
			i = end - 1
			continue
		case '}', ']':
			depth = max(0, depth-1)
			continue
		case '{', '[':
			depth++
			if depth > b.Depth {
				return fmt.Errorf("it is nested more than %d deep", b.Depth)
			}
			commas[depth] = 0
		case ',':
			commas[depth]++
			if commas[depth] == b.Members {
				return fmt.Errorf("a list or object in it has more than %d members", b.Members)
			}
		default:
			continue
		}

		elements++
		if elements > b.Elements {
			return fmt.Errorf("it has more than %d elements", b.Elements)
		}
	}

	return nil
}

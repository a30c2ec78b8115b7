package deptest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/osfile"
)

// drawingFile says how large a drawing of this repository's folders is.
const drawingFile = "testdata/drawing.txt"

// drawing has the imports between rooms: by room, the other rooms that its packages import.
type drawing map[string]map[string]bool

// drawRooms returns the drawing of a graph. A room is a folder of internal or plugins, or another one at the top. Test
// files are left out.
func drawRooms(g Graph) drawing {
	rooms := drawing{}
	for path, p := range g {
		if !strings.HasPrefix(path, module) {
			continue
		}
		from := findRoom(path)
		if rooms[from] == nil {
			rooms[from] = map[string]bool{}
		}
		for _, imported := range p.Imports {
			if to := findRoom(imported); strings.HasPrefix(imported, module) && to != from {
				rooms[from][to] = true
			}
		}
	}

	return rooms
}

// findRoom returns the room of a package of this repository.
func findRoom(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, module), "/")
	isWide := parts[0] == "internal" || parts[0] == "plugins"
	if isWide && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}

	return parts[0]
}

// floor returns how many rooms are on the longest way of imports from a room down, itself included. It fails the test at
// a circle, of which above has the rooms.
func (d drawing) floor(t *testing.T, room string, above ...string) int {
	t.Helper()
	above = append(above, room)
	if len(above) > len(d) {
		t.Fatalf("got a circle of imports between rooms: %s; want none", strings.Join(above, " → "))
	}

	below := 0
	for to := range d[room] {
		below = max(below, d.floor(t, to, above...))
	}

	return below + 1
}

// TestDrawing compares the numbers of rooms, of floors and of arrows between rooms with drawingFile: the commit that
// lets them grow changes a line of it.
func TestDrawing(t *testing.T) {
	rooms := drawRooms(loadModule(t, root(t)))

	floors, arrows := 0, 0
	for room, to := range rooms {
		floors = max(floors, rooms.floor(t, room))
		arrows += len(to)
	}

	got := fmt.Sprintf("rooms %d\nfloors %d\narrows %d\n", len(rooms), floors, arrows)
	want := osfile.Read(t, drawingFile)
	if got != string(want) {
		t.Errorf("this repository has:\n%swant, as in internal/deptest/%s:\n%s"+
			"If it has to grow, change that file, and say in the commit what the growth is for.", got, drawingFile, want)
	}
}

package wire

import "strconv"

// Environment is all that a detector finds in its environment when prelet, or the conformance kit, starts it. The folder is that of its
// socket, and of nothing else.
func Environment(folder string) []string {
	return []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "GOMAXPROCS=2", "TMPDIR=" + folder, Folder + "=" + folder,
		CookieKey + "=" + CookieValue, Versions + "=" + strconv.Itoa(Version)}
}

package nodefile

import (
	"strconv"
	"strings"
)

// OwnerName returns the owner of a file as USER:GROUP, by the names in /etc/passwd and /etc/group below the root. An id
// without a name stays a number; 0 is always root.
func (r Root) OwnerName(uid, gid int) string {
	return r.nameOf("/etc/passwd", uid) + ":" + r.nameOf("/etc/group", gid)
}

// nameOf returns the name of an id in a file like /etc/passwd, or the id as a number.
func (r Root) nameOf(file string, id int) string {
	if id == 0 {
		return "root"
	}

	number := strconv.Itoa(id)
	for line := range strings.Lines(r.TextIfReadable(file)) {
		if p := strings.Split(line, ":"); len(p) > 2 && p[2] == number {
			return p[0]
		}
	}
	return number
}

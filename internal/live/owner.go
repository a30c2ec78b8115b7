package live

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// owner names the user and the group of a file as the passwd and group files of the node do; an id without a name
// stays a number, and root's is known. Sites give owners by name, and a plan compares names.
func (l *Live) owner(uid, gid int) string {
	return l.idName("/etc/passwd", uid) + ":" + l.idName("/etc/group", gid)
}

func (l *Live) idName(file string, id int) string {
	if id == 0 {
		return "root"
	}
	number := strconv.Itoa(id)
	f, err := os.Open(l.root().Path(file))
	if err != nil {
		return number
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if p := strings.Split(s.Text(), ":"); len(p) > 2 && p[2] == number {
			return p[0]
		}
	}
	return number
}

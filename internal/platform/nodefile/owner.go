package nodefile

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// OwnerName returns the owner of a file as USER:GROUP, by the names in /etc/passwd and /etc/group below the root. An id
// without a name stays a number; 0 is always root.
func (r Root) OwnerName(uid, gid int) string {
	return r.nameOf(Users, uid) + ":" + r.nameOf(Groups, gid)
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

// The files that give names to ids. Other sources may not be available at boot.
const (
	Users  = "/etc/passwd"
	Groups = "/etc/group"
)

// maxID is the highest id of a user or a group: the one above stands for "leave it" in chown.
const maxID = math.MaxUint32 - 1

// FindID returns the id of a name in a file like /etc/passwd below the root, or of a number.
func (r Root) FindID(file, name string) (int, error) {
	if n, err := strconv.ParseUint(name, 10, 64); err == nil {
		if n > maxID {
			return 0, fmt.Errorf("%s is more than %d, the highest id", name, uint32(maxID))
		}

		return int(n), nil
	}

	if name == "root" {
		return 0, nil
	}

	for line := range strings.Lines(r.TextIfReadable(file)) {
		if p := strings.Split(line, ":"); len(p) > 2 && p[0] == name {
			return strconv.Atoi(p[2])
		}
	}

	return 0, fmt.Errorf("there is none of this name in %s", file)
}

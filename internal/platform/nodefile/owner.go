package nodefile

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The files that map names to ids. Other sources may not be available at boot.
const (
	Users  = "/etc/passwd"
	Groups = "/etc/group"
)

// maxID is the highest id of a user or a group: the next one means "unchanged" in chown.
const maxID = math.MaxUint32 - 1

// OwnerName returns the owner of a file as USER:GROUP, by the names in /etc/passwd and /etc/group below the root. An id
// without a name stays a number; 0 is always root.
func (r Root) OwnerName(uid, gid int) string {
	return r.findName(Users, uid) + ":" + r.findName(Groups, gid)
}

// findName returns the name of an id in a file like /etc/passwd, or the id as a number.
func (r Root) findName(file string, id int) string {
	if id == 0 {
		return "root"
	}

	number := strconv.Itoa(id)
	if entry := r.findEntry(file, 2, number); entry != nil {
		return entry[0]
	}

	return number
}

// FindID returns the id of a name in a file like /etc/passwd below the root, or of a number.
func (r Root) FindID(file, name string) (int, error) {
	if n, err := strconv.ParseUint(name, 10, 64); err == nil {
		return checkID(n)
	}
	if name == "root" {
		return 0, nil
	}

	entry := r.findEntry(file, 0, name)
	if entry == nil {
		return 0, fmt.Errorf("it is not in %s", file)
	}

	n, err := strconv.ParseUint(entry[2], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("its id in %s is not a number: %q", file, entry[2])
	}
	return checkID(n)
}

// FindOwner returns the ids of an owner, USER:GROUP, by the names of the root: they are not those of this machine.
func (r Root) FindOwner(owner string) (uid, gid int, err error) {
	user, group, _ := strings.Cut(owner, ":")
	if uid, err = r.FindID(Users, user); err != nil {
		return 0, 0, fmt.Errorf("user %s: %w", user, err)
	}
	if gid, err = r.FindID(Groups, group); err != nil {
		return 0, 0, fmt.Errorf("group %s: %w", group, err)
	}

	return uid, gid, nil
}

// checkID refuses an id that the kernel would cut to 32 bits, and so 4294967296, which would be root's.
func checkID(n uint64) (int, error) {
	if n > maxID {
		return 0, fmt.Errorf("%d is more than %d, the highest id", n, uint32(maxID))
	}
	return int(n), nil
}

// findEntry returns the fields of the first line of a file like /etc/passwd with this text in a field; nil if there is
// none.
func (r Root) findEntry(file string, field int, text string) []string {
	for line := range strings.Lines(r.TextIfReadable(file)) {
		entry := strings.Split(line, ":")
		if len(entry) > 2 && entry[field] == text {
			return entry
		}
	}

	return nil
}

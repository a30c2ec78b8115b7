package write

import (
	"fmt"
	"strings"
)

// TargetsPage is docs/reference/targets.md.
func TargetsPage() string {
	var b strings.Builder
	b.WriteString(targetsHead)
	for i := 0; i < len(refused); {
		var places []string
		why := refused[i].why
		for ; i < len(refused) && refused[i].why == why; i++ {
			places = append(places, "`"+refused[i].place+"`")
		}
		fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(places, ", "), why)
	}
	fmt.Fprintf(&b, "| `%s*`, in any folder, and what is below | prelet's own temporaries begin with it |\n", ownTemporaries)
	fmt.Fprintf(&b, "| `%s`, and their `.d`, `.wants`, `.requires` and `.upholds`, in any folder of units | it is a unit of prelet's, or changes one |\n",
		strings.Join(ownUnits, "`, `"))
	b.WriteString(targetsTail)
	return b.String()
}

const targetsHead = `# Targets

What ` + "`" + `path` + "`" + ` of the blocks of [` + "`" + `stage "write"` + "`" + `](stage-write.md) may be. ` + "`" + `validate` + "`" + ` checks it, where the path is known without a
machine; ` + "`" + `plan` + "`" + ` and ` + "`" + `run` + "`" + ` check it always.

A path is absolute and clean (no ` + "`" + `.` + "`" + `, ` + "`" + `..` + "`" + `, ` + "`" + `//` + "`" + `), and holds no character that controls a terminal, changes the direction of text,
or is not seen. No link may be at or above it; its folder, and each folder above, must belong to root, with no other user or group
able to write to it.

## Refused places

A name that ends in ` + "`" + `/` + "`" + ` is a folder with all below it; ` + "`" + `*` + "`" + ` stands for any part of one name. ` + "`" + `/bin` + "`" + `, ` + "`" + `/sbin` + "`" + `, ` + "`" + `/lib` + "`" + ` and ` + "`" + `/var/run` + "`" + `
are judged as the folders that they are links to.

| place | why |
|---|---|
`

const targetsTail = `
## Modes

Of a file ` + "`" + `0001` + "`" + ` to ` + "`" + `0777` + "`" + `: no setuid, no setgid, no sticky bit. Of a folder the sticky bit is allowed as well. ` + "`" + `0000` + "`" + ` is refused:
root reads such a file all the same, so ` + "`" + `0400` + "`" + ` or ` + "`" + `0600` + "`" + ` says what is meant. A file with a secret in it is written ` + "`" + `0600` + "`" + `.
A folder of the system, such as ` + "`" + `/etc` + "`" + `, keeps ` + "`" + `0755` + "`" + ` and its owner root. ` + "`" + `/boot` + "`" + `, ` + "`" + `/home` + "`" + `, ` + "`" + `/opt` + "`" + `, ` + "`" + `/srv` + "`" + `, ` + "`" + `/var/cache` + "`" + ` and
` + "`" + `/var/log` + "`" + ` may have any, but everybody may write there only with the sticky bit.

A ` + "`" + `directory` + "`" + ` with another target below it is root's alone: its owner is root, and no mode lets others write to it. Else
others could replace the target, and no run would write there again. The owner of the target itself may be any.

## Owners

Without ` + "`" + `owner` + "`" + ` a file keeps the owner that it has, and a new one gets that of its folder. A secret that would go into a file of
another user than root is a [warning](../codes/sensitive.md), unless the site says ` + "`" + `owner` + "`" + `.
`

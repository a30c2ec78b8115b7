package script

// Word is a command or a fact of the language.
type Word struct {
	Noun string // script, disk, node, store, site, kubelet, systemd, cluster, clock
	Name string
	Args string // as in a table
	Does string

	On      string // the node whose tests play the example: store, machine, run, disk, program, system
	Example string // lines of a script
}

// Commands returns the commands of the language, in the order of its page.
func Commands() []Word {
	return []Word{
		{"script", "matrix", "NAME VALUE…", "plays the script once for each value", "store",
			"matrix CONTENT a b\nwrite a $CONTENT\nis file a $CONTENT"},
		{"script", "set", "NAME TEXT", "gives $NAME a value", "store", "set X a\nwrite $X text\nis file a text"},
		{"script", "skip", "WHY", "ends the script, which cannot be played here", "", ""},
		{"script", "repeat", "N|VALUE,… COMMAND", "carries out commands so often, or once for each value of %", "store",
			"repeat a,b write % text\nis file a text\nis file b text"},
		{"script", "is", "FACT TEXT",
			"the fact is the text, or within a range such as 1..3 or ..5s", "store",
			"write a text\nis file a text\n! is file a other"},
		{"script", "has", "FACT TEXT…", "the fact contains the texts, wherever lines are broken", "store",
			"write a 'some text'\nhas file a some text"},
		{"script", "matches", "FACT EXPRESSION", "a regular expression matches the fact, or lines of it", "store",
			"write a 'some text'\nmatches file a ^so.*t$"},
		{"script", "until", "[!] FACT…", "waits until `is`, `has` or `matches` holds", "", ""},
		{"script", "fails", "CODE TEXT COMMAND",
			"the command fails with this code, `any` or a named error, and the text",
			"store", "fails no-generation '' judge 9 good"},
		{"script", "refused", "TEXT COMMAND", "the command fails before its commit, and nothing has changed", "store",
			"link /elsewhere a\nrefused link apply p1 a=1"},
		{"script", "at", "DURATION COMMAND", "carries the command out so much later, while others run", "", ""},
		{"script", "on", "MOMENT COMMAND", "carries the command out at each such moment", "", ""},
		{"script", "die", "MOMENT COMMAND", "the process of the command dies there", "", ""},
		{"script", "pause", "MOMENT [ARGS]|none", "a process is held there, or goes on", "", ""},
		{"script", "snapshot", "[NAME]", "is what `same` compares with", "store",
			"write a 1\nsnapshot before\nwrite a 2\n! same files before"},
		{"script", "same", "WHAT [NAME|EXCEPT…]", "these are as they were at the snapshot", "store",
			"write a 1\nsnapshot before\nsame files before"},

		{"disk", "write", "PATH TEXT [MODE]",
			"writes a file, with \\n for a new line, and the folders above it", "disk",
			"write /etc/a 1 0600\nis file /etc/a 1\nis mode /etc/a -rw-------"},
		{"disk", "edit", "PATH OLD NEW",
			"replaces each OLD, of which there must be one; an empty one is the end of the file",
			"disk", "write /etc/a 12\nedit /etc/a 2 3\nedit /etc/a '' 4\nis file /etc/a 134"},
		{"disk", "copy", "FROM TO", "copies a file or a folder, with its owners and modes", "disk",
			"write /etc/a 1\ncopy /etc/a /etc/b\nis file /etc/b 1"},
		{"disk", "move", "FROM TO", "renames", "disk", "write /etc/a 1\nmove /etc/a /etc/b\nis file /etc/a absent"},
		{"disk", "remove", "PATH…", "removes files and folders, if they are there", "disk",
			"write /etc/a 1\nremove /etc/a\nis file /etc/a absent"},
		{"disk", "folder", "PATH [MODE]", "makes a folder, and those above it", "disk",
			"folder /etc/d 0700\nis mode /etc/d drwx------"},
		{"disk", "link", "TARGET PATH", "makes a symbolic link", "disk",
			"write /etc/a 1\nlink a /etc/b\nis file /etc/b 1"},
		{"disk", "mode", "PATH MODE", "changes the mode, in octal", "disk",
			"write /etc/a 1\nmode /etc/a 0600\nis mode /etc/a -rw-------"},
		{"disk", "owner", "PATH UID[:GID]", "changes the owner", "disk",
			"write /etc/a 1\nowner /etc/a 7\nis owner /etc/a 7:0"},
		{"disk", "attribute", "PATH NAME VALUE|none", "sets an attribute, an ACL, or the flag `immutable`", "", ""},
		{"disk", "mount", "PATH KIND [OPTIONS]",
			"mounts: `tmpfs OPTIONS`, `bind FROM`, `read-only`, `remount OPTIONS`; `none` unmounts", "", ""},
		{"disk", "fill", "PATH [inodes]", "fills the file system with a file, or with files", "", ""},
		{"disk", "limit", "WHAT VALUE", "limits what the process may do: umask, size, space, setid", "", ""},
		{"disk", "spoil", "PATH HOW [ARGS]",
			"spoils a file: `flip`, `fifo`, `socket`, `folder`, `unreadable`, and what the node knows", "disk",
			"write /etc/a 1\nspoil /etc/a folder\nis mode /etc/a drwxr-xr-x"},

		{"node", "boot", "[N|OPTIONS]",
			"boots: prelet.service, the kubelet, prelet-verify.service; prelet ends with N", "", ""},
		{"node", "start", "[OPTIONS]", "boots until systemd answers", "", ""},
		{"node", "reboot", "[ID]", "a power cycle, before prelet", "", ""},
		{"node", "power", "off|cut|durable", "turns the node off, cuts its power; what is durable stays", "", ""},
		{"node", "good", "N", "the node has booted, and has N good generations", "", ""},
		{"node", "clone", "NAME", "another machine has a copy of the disk", "", ""},
		{"node", "prelet", "N ARGS…", "a person runs prelet, which ends with N, one of a list, or `any`", "", ""},
		{"node", "service", "UNIT N [ARGS…]", "a unit of prelet runs", "", ""},
		{"node", "command", "WORDS…", "a command of the node succeeds", "", ""},
		{"node", "run", "[SITE] [HOW]", "`prelet run` with a site", "", ""},
		{"node", "enter", "HOW [ARGS]", "another process of prelet", "", ""},
		{"node", "finish", "", "prelet.service ends, and the kubelet starts", "", ""},
		{"node", "rollback", "FROM TO WHY [+hold] [+judge]", "a rollback", "", ""},
		{"node", "recover", "", "what a process died in is recovered", "", ""},

		{"store", "open", "[HOW]", "opens the state folder: `read-only`, `other`, `swap`, `none`", "", ""},
		{"store", "lock", "HOW", "another process takes the lock of the state folder, or gives it", "", ""},
		{"store", "apply", "ID TARGET…", "commits and publishes a plan", "store", "apply p1 a=1\nis file a 1"},
		{"store", "stage", "ID TARGET…", "makes a plan ready", "store", "stage p1 a=1\nis file a absent"},
		{"store", "commit", "", "commits the plan that is ready", "store", "stage p1 a=1\ncommit\nis gen 1"},
		{"store", "publish", "", "publishes the generation that was committed", "store",
			"stage p1 a=1\ncommit\npublish\nis file a 1"},
		{"store", "compare", "ID TARGET…", "compares a plan with the disk", "", ""},
		{"store", "judge", "N VERDICT [TEXT]", "a generation is `good`, `unhealthy` or `retired`", "store",
			"apply p1 a=1\njudge 1 good\nis last-good 1"},
		{"store", "hold", "plan|generation|none …", "holds a plan, or pins a generation", "", ""},
		{"store", "store", "VERB [ARGS]", "another method of the store: `collect N`, `try BOOT`", "", ""},

		{"site", "site", "VERB [ARGS]", "what the site says", "", ""},
		{"kubelet", "kubelet", "VERB [ARGS]", "what the kubelet does", "", ""},
		{"systemd", "systemd", "VERB [ARGS]", "what systemd and its units do", "", ""},
		{"cluster", "cluster", "VERB [ARGS]", "what the cluster does, and what the Node is like", "", ""},
		{"clock", "clock", "VERB [ARGS]", "time passes: `advance DURATION`, `set …`", "", ""},
	}
}

// Facts returns what scripts compare, in the order of the language's page.
func Facts() []Word {
	return []Word{
		{"disk", "file", "PATH", "its text, or absent", "disk", "write /etc/a 1\nis file /etc/a 1"},
		{"disk", "mode", "PATH", "its mode as ls shows it, or absent", "disk",
			"write /etc/a 1 0600\nis mode /etc/a -rw-------"},
		{"disk", "owner", "PATH", "UID:GID, or absent", "disk", "write /etc/a 1\nis owner /etc/a 0:0"},
		{"disk", "exists", "PATH", "yes or no, also for a link", "disk", "write /etc/a 1\nis exists /etc/a yes"},
		{"store", "gen", "", "the generation that the last command made", "store", "apply p1 a=1\nis gen 1"},
		{"store", "last-good", "", "the last good generation, or none", "store", "apply p1 a=1\nis last-good none"},
	}
}

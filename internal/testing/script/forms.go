package script

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Form is one of the forms of a command that has several, or other ones in other nodes.
type Form struct {
	In   string // the nodes that have it, or all
	Name string
	Args string // those in lower case are meant as they are
	Does string
}

// Forms returns the forms of commands, in the order of the language's page. A node refuses a line that is none of them.
func Forms() (forms []Form) {
	for line := range strings.Lines(formTable) {
		cells := strings.SplitN(strings.TrimSuffix(line, "\n"), " | ", 3)
		name, args, _ := strings.Cut(cells[1], " ")
		forms = append(forms, Form{cells[0], name, args, cells[2]})
	}

	return forms
}

// has reports whether a node is one of these.
func has(nodes, node string) bool {
	return nodes == "all" || slices.Contains(strings.Fields(nodes), node)
}

// formsOf returns the forms of each command that a node has: its only one, where the table of forms has none.
func formsOf(node string) map[string][]Form {
	forms := map[string][]Form{}
	for _, f := range Forms() {
		if has(f.In, node) {
			forms[f.Name] = append(forms[f.Name], f)
		}
	}
	for _, w := range Commands() {
		if has(w.In, node) && forms[w.Name] == nil {
			forms[w.Name] = []Form{{w.In, w.Name, w.Args, w.Does}}
		}
	}

	return forms
}

// argument is one of a form.
type argument struct {
	words      []string // of which it is one; nil: any
	isOptional bool
	isMany     bool
}

var isWord = regexp.MustCompile(`^[a-z][a-z-]*(\|[a-z][a-z-]*)*$`)

// arguments returns those of a form, such as `PATH read-only [OPTION…]`.
func (f Form) arguments() (all []argument) {
	isOptional := false
	for _, text := range strings.Fields(f.Args) {
		isOptional = isOptional || text[0] == '['
		isEnd := strings.HasSuffix(text, "]")
		text = strings.Trim(text, "[]")
		a := argument{isOptional: isOptional, isMany: strings.HasSuffix(text, "…")}
		if isWord.MatchString(text) {
			a.words = strings.Split(text, "|")
		}
		all = append(all, a)
		isOptional = isOptional && !isEnd
	}

	return all
}

// compare returns how many of the words are those that the form has, or -1 if one is another, and whether there are as
// many as it needs. A word for which isOpen holds may be any.
func (f Form) compare(words []string, isOpen func(string) bool) (same int, fits bool) {
	least, most := 0, 0
	for i, a := range f.arguments() {
		if most++; !a.isOptional {
			least++
		}
		if a.isMany {
			most += len(words)
		}
		switch {
		case i >= len(words) || a.words == nil:
		case slices.Contains(a.words, words[i]) || isOpen(words[i]):
			same++
		default:
			return -1, false
		}
	}

	return same, least <= len(words) && len(words) <= most
}

// String returns the form as the page has it.
func (f Form) String() string { return "`" + strings.TrimSpace(f.Name+" "+f.Args) + "`" }

// choose returns those of the forms that have the most words of a line, and one of them that it has, if any.
func choose(forms []Form, words []string, isOpen func(string) bool) (nearest []Form, found *Form) {
	most := -1
	for _, f := range forms {
		same, fits := f.compare(words, isOpen)
		if same > most {
			most, nearest, found = same, nil, nil
		}
		if same == most {
			nearest = append(nearest, f)
		}
		if same == most && fits {
			found = &f
		}
	}

	return nearest, found
}

// refuse returns which forms a line should have had, or "" if it has one.
func refuse(forms []Form, words []string, isOpen func(string) bool) string {
	nearest, found := choose(forms, words, isOpen)
	if found != nil {
		return ""
	}
	var wanted []string
	for _, f := range nearest {
		wanted = append(wanted, f.String())
	}

	return strings.Join(wanted, " or ")
}

// Unknown returns the error of a node for an argument that it does not know.
func Unknown(what, name string) error {
	return fmt.Errorf("got the %s %q, want one that this node has", what, name)
}

// formTable has the nodes, the form, and its effect.
const formTable = `machine program | at DURATION COMMAND… | of the next command's time
program | at judged COMMAND… | at the first wait after a good verdict
program | at look COMMAND… | at the next look at the kubelet's health
machine | on commit|open|start COMMAND… | at each commit, opening of the gate, or start of the kubelet in this boot
run | on watch COMMAND… | at each look at the kubelet's health
program | on plan|reload|start COMMAND… | after each plan of a run, reload of systemd, or start of the kubelet
program | on plan|reload|start if|unless FILE COMMAND… | the same, if the file is there, or is not
program | on healthy N COMMAND… | at each look that finds the kubelet healthy, after N more starts
store | die OPERATION:END COMMAND… | at the first such operation on a path with this end
machine | die MOMENT COMMAND… | at before:STEP or after:STEP of a process, or at an event, as in 'gate ok'
program | die stage|commit|publish FILE | a commit that changes the file dies before COMMIT, after it, while it publishes
program | die earlier FOLDER | a state folder has such a commit of an earlier boot
system | pause staged|committed|mixed|published|awaited N NAME [WORD…] | a command, or prelet run, makes generation N of site both NAME
system | pause gate | prelet run is held when its files are in place, and the gate is still shut
system | pause none | the process goes on
store | same files|inodes|remaining|tree SNAPSHOT | contents of files; also of folders; that nothing was touched; of those that remain
store | same file SNAPSHOT PATH | a file was not touched
store | same journal SNAPSHOT [later] | it is of the same commit; with the clock of a later boot
machine | same files|gate|kubelet | the site's files, the gate, the process
program | same files|kubelet | the managed files, the process
program system | same disk [FILE…] | nothing was written but to these files
program system | same file FILE FILE | two files have the same content
system | same authorizations|kubelet|run | no client used the token; the process; prelet.service has not run again
all | mount PATH none | unmounts
all | mount PATH read-only | what is there cannot be written
all | mount PATH tmpfs|remount OPTIONS | a file system; other options of it
all | mount PATH bind FROM | a file or a folder is there, too
faults | mount PATH ext4 | the disk of the script
store | limit umask MODE | of the process
store faults | limit size BYTES | of a file that is written; none: no limit
store | limit setid no | no process may set such a mode
store | limit space none | there is space again
store | limit space PART [always] | a write to such a path has no space, until what is reserved for a rollback is freed
all | spoil PATH flip | a bit of its last byte is another one
all | spoil PATH fifo|folder|socket | it is one
program | spoil PATH unreadable | each read fails with EIO, until the file is replaced
store program | spoil PATH empty|garbage | nothing is in it, or no JSON
store | spoil PATH large | it is larger than a content may be
store program | spoil PATH newer | a prelet of a later format has written it
store | spoil PATH rot CONTENT | a byte of this content of a generation is another one
program | spoil PATH newer KEY VALUE | a later prelet has written it, and this member
program | spoil PATH newer-plan OLD NEW | a later prelet has such a text in the generation's plan
program | spoil PATH bit AT | a bit at a place, from the end, or at the begin of the K-th of N parts: K/N
program | spoil PATH bit-of TEXT | a bit of this text in it
program | spoil PATH half|short|full-folder|link | it has half of it, a few bytes, is a folder with a file, or a link
machine | boot SITE… | with this site
program | boot N | prelet.service ends with N
system | boot [OPTION…] | with options of systemd-nspawn
store | reboot ID | the identifier of the boot
machine run program | reboot | the node is off, and on
store | power durable | what is there stays when the power is cut, and of what comes, what is fsynced
store system | power cut | what is not durable is lost
store | power cut adverse | also of what is not durable, some is kept
system | power off | the machine is shut down
program | good N [NAME] | with the labels a, b, c; joined as NAME
system | good N | with the labels a, b, c
machine | run SITE… | in a process of its own
run | run SITE | in a process of its own; unreachable, wrong, failed-precondition, no-site: there is no complete plan
run | run SITE off|stopped|with-stage|outdated-state|of-another-machine | prelet.off; SIGTERM; what the plan or Node is
run | run SITE hold|no-hold [NAME…] | with these holds, or where they do not count; NAME? is unknown
run | run SITE below-root [retry] | with --root
faults | run VERSION | of the site
machine | enter verify|keep|keep-without-site|off|resume | the process of prelet-verify, of a run without a plan, with prelet.off, of a restart
machine | enter unchanged [SITE…] | a run whose plan is in place
machine | enter examine | prelet verify by hand, on generation 1
machine | enter settled|pending|returning | what leads to a generation that is good, awaits its verdict, or that of a rollback
run | enter report-held SITE | an earlier process of this boot has reported that the plan is held
system | enter later WORD… | a command of the machine runs until finish
machine | finish | prelet.service ends, and the kubelet starts
system | finish N | the command of enter or pause ends with N
store | rollback TO [OPTION…] | +from=GEN, instead of that in place; +why=TEXT, +hold, +without=PATH; +judge awaits a verdict
machine | rollback TO [OPTION] | by hand; +once: unless it was done already
run | rollback TO | by hand
store | open | the state folder
store | open other | in another process
store | open read-only|swap|none | without the lock; that other process goes on; closes it
store program | lock take|give | this process, or in program another one, takes it or gives it
store | lock older|older-ends | prelet 0.1.0 has it, or ends
store | judge N good [REPORT…] | is good
store | judge N unhealthy WHY… | is not
store | judge N retired PATH | was retired for this path
store | hold plan ID WHY | it is not applied again
store run | hold generation N WHY | it is pinned
store | hold none | what is held or pinned is no longer
store | store collect N | keeps N good generations
store | store try BOOT | counts a try of the generation that awaits its verdict
store | store check-rollback FROM TO | what a rollback would do
store | store newer|checks | whether a later prelet has written the state; what a commit checks before it
store | store in-place N | what this boot is known to have put in place
machine | site plan JSON… | over that of the site
machine | site holds [WHY…] | it holds the kubelet, or no longer
machine | site bound DURATION | of the activation
machine | site no-rollback | a bad verdict does not roll back
machine | site unit-files yes|no | it has a unit file
machine | site other-file CONTENT ACTION | it has a file that another unit reads
faults | site file PATH CONTENT [N] | one more file, whose content is the text N times
program | site file FILE | it is that one
program | site label VALUE | it plans another label
system | site first [OLD NEW…] | it is the first one, with these replacements
system | site label POOL [KIND] | the first one with this pool, and a label with which the kubelet becomes unhealthy: standin/main.go
system | site both NAME | a change of flags and configuration
system | site patience SETTLE TIMEOUT | so long the kubelet is watched
system | site detector NAME | one of internal/machine/detector/hostile is installed, with its lock
machine | kubelet conduct [CONFIG…] | each process behaves as with this configuration, or no longer
machine | kubelet heals|fixed | it becomes healthy; its pods start now
machine | kubelet older|joined|driver | than the files; the node; the runtime has another cgroup driver
machine | kubelet log LINE… | its log
machine | kubelet start-log LINE… | what each process logs at first
machine | kubelet log-fails ERROR… | the log cannot be read
machine program | kubelet expired [WHY…] | its certificate has expired, or no longer
machine | kubelet other-flags ERROR… | the next process has not the flags
machine | kubelet configz [DIFFERENCE…] | how its configuration differs from the plan
machine | kubelet serving ERROR | of its serving certificate; signed: none
machine | kubelet serving unknown ERROR | it is not known
run | kubelet running|stopped|waiting|seen | it waits for the gate; a commit has noted that it runs
run | kubelet unhealthy SITE… | with the files of these sites
program | kubelet start|stop|crash | systemd starts it, stops it, or starts it again
program | kubelet is NAME | its unit has this name
program | kubelet masked|unmasked | its unit is, or not
program | kubelet waits | it does not join
program | kubelet join NAME | it has joined
program | kubelet joins-as NAME | when it starts, with its certificate in a file
program | kubelet has-kubeconfig|key-of-another-certificate | of n1
program | kubelet version VERSION | of its command and its process
program | kubelet healthz TEXT | it is not healthy; ok: it is
program | kubelet healthz TEXT FILE PART | it is not while the file contains this
program | kubelet files-changed DURATION | so long after its start
program | kubelet reads-flags|keeps-flags | its process has the present ones until its next start, or for ever
machine program | systemd gone|back | it does not answer, or does
machine | systemd terminate | ends the innermost run, or the next one, as SIGTERM does
machine | systemd runs-prelet | as prelet.service, for which the kubelet's start waits
machine | systemd wait-at-gate | prelet.service has failed once, and is started again
machine | systemd stops DURATION | how long a stop takes
machine | systemd restart-sec DURATION | RestartSec= of the kubelet
machine | systemd no-restart|dependency-fails|blind|disabled | Restart=no; a start fails; a changed file is not noticed; the kubelet is disabled
machine | systemd skips WORD | a condition of the kubelet's unit does not hold with this word in the configuration
machine | systemd gate optional|none | EnvironmentFile= of the kubelet's unit
machine | systemd end RESULT | of the kubelet's process
machine | systemd job KIND | somebody requests it of the kubelet's unit
machine program | systemd mounts [PATH=STATE…] | its mount units
machine | systemd unit|other-unit JSON | over the kubelet's unit, or the other one
machine | systemd other-ends healthy | the other unit, whatever its file says
program | systemd without-order | it does not answer which unit runs a process
program | systemd unit NAME FIELD=VALUE… | fields of activation.Unit
program | systemd jobs-end refused TEXT | it refuses jobs of the site's unit
program | systemd jobs-end RESULT [FIELD=VALUE…] | they end so, and the unit is like that then
program | systemd job-of-prelet restart|stop | the job of prelet.service
program | systemd verify-unit masked|none | prelet-verify.service is masked, or not there
program | systemd apply-unit serves|serves-second|dies|none | prelet-apply.service serves requests, only at its second start, or dies; there is no systemd
program | systemd apply-unit ignores [STATE] | it does nothing; its ActiveState
program | systemd apply-unit ends RESULT | so ends the job of its start
system | systemd settle | no job is left
system | systemd counts-boots | the machine counts boots, and checks the image
machine run system | cluster unreachable|reachable | no server answers, or it does
program | cluster unreachable | no server answers
machine | cluster labels [NAME=VALUE…] | those of the Node
machine program | cluster label NAME=VALUE… | more of them
program | cluster annotation NAME=VALUE… | more of the Node
machine program | cluster taints [TAINT…] | those of the Node
machine | cluster age DURATION | of the Node
machine | cluster deleted TIME | the Node is
machine program | cluster machines ID… | they update the Node in turn, each until a kubelet updates it again; - is this one
program | cluster conditions [TYPE=STATUS…] | those of the Node
program | cluster add-condition TYPE=STATUS | one more
program | cluster ready true|false | the Node is
program | cluster node ID STATUS | the Node n1 is of this machine, with this status of Ready
program | cluster answers get|taints|conditions|annotations|events|serving ANSWER | to requests for the Node, or patches: ok, refused, changed, unreachable, TEXT
program | cluster csr STATUS | it lists the script's csr.json, with this for @STATUS@
program | cluster jitter PERCENT | of each wait
program | cluster forget-patches | those that were sent
program system | cluster config-map FILE | the configuration of kubelets
system | cluster portal|other-cluster | another server answers at its address, until it is reachable
system | cluster token-expires|node-made-again | the bootstrap token is not valid; the Node has no status
system | cluster signs NAME | a node that joins gets a certificate of this name
all | clock advance DURATION | time passes
machine run program | clock set DURATION | the wall clock jumps, as by +72h
`

package unitfile

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// statusNames are the exit statuses with which systemd itself ends a service before its program runs
// (src/shared/exit-status.c).
var statusNames = map[int32]string{
	200: "CHDIR", 201: "NICE", 202: "FDS", 203: "EXEC", 204: "MEMORY", 205: "LIMITS", 206: "OOM_ADJUST",
	207: "SIGNAL_MASK", 208: "STDIN", 209: "STDOUT", 210: "CHROOT", 211: "IOPRIO", 212: "TIMERSLACK",
	213: "SECUREBITS", 214: "SETSCHEDULER", 215: "CPUAFFINITY", 216: "GROUP", 217: "USER", 218: "CAPABILITIES",
	219: "CGROUP", 220: "SETSID", 221: "CONFIRM", 222: "STDERR", 224: "PAM", 225: "NETWORK", 226: "NAMESPACE",
	227: "NO_NEW_PRIVILEGES", 228: "SECCOMP", 229: "SELINUX_CONTEXT", 230: "PERSONALITY", 231: "APPARMOR",
	232: "ADDRESS_FAMILIES", 233: "RUNTIME_DIRECTORY", 235: "CHOWN", 236: "SMACK_PROCESS_LABEL", 237: "KEYRING",
	238: "STATE_DIRECTORY", 239: "CACHE_DIRECTORY", 240: "LOGS_DIRECTORY", 241: "CONFIGURATION_DIRECTORY",
	242: "NUMA_POLICY", 243: "CREDENTIALS", 245: "BPF",
}

// StatusExec is the exit status of a service whose program cannot be executed.
const StatusExec = 203

// NotStarted returns the exit status with which systemd ended a unit's process before its program ran, as systemctl
// shows it: 203/EXEC; "" if the program ran, or if that is not known.
func (u Unit) NotStarted() string {
	name := statusNames[u.Status]
	if u.Result != "exit-code" || name == "" {
		return ""
	}

	return fmt.Sprintf("%d/%s", u.Status, name)
}

// DescribeResult returns the result of a unit in systemd's words, with what failed before its process: systemd's own
// exit status names the step.
func (u Unit) DescribeResult() string {
	status := u.NotStarted()
	switch {
	case u.FailedPre != "":
		return u.Result + ": " + u.FailedPre
	case status != "" && u.Status == StatusExec:
		return joinNonEmpty(u.Result, status, cmp.Or(u.whyFailed(), u.Program))
	}

	return joinNonEmpty(u.Result, status, u.whyFailed())
}

// joinNonEmpty joins the parts that are not empty with colons.
func joinNonEmpty(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ": ")
}

// isHidden reports whether a path is in a folder that the sandbox of prelet's units hides from prelet (ProtectHome=,
// TemporaryFileSystem=, ProtectProc=).
func isHidden(p string) bool {
	folders := []string{"/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/", "/dev/", "/proc/"}

	return slices.ContainsFunc(folders, func(folder string) bool { return strings.HasPrefix(p+"/", folder) })
}

// WhyNoProgram returns why the next start of a unit below a root would fail with 203/EXEC, with the path; "" if it
// would not, as far as is known. An ExecStartPre= may still bring the program.
func (u Definition) WhyNoProgram(root nodefile.Root) string {
	isUnseen := root == "" && isHidden(u.Program)
	if u.Load != "loaded" || !path.IsAbs(u.Program) || u.OtherRoot || u.HasPre || isUnseen {
		return ""
	}

	return root.WhyNotExecutable(u.Program)
}

// whyNoProgram is WhyNoProgram on this machine, where no ExecStartPre= of a unit that runs is to come.
func (u Unit) whyNoProgram() string {
	u.HasPre = u.HasPre && u.Active != "active"

	return u.WhyNoProgram("")
}

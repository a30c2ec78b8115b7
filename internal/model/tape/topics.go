package tape

import "net/netip"

// FileReq asks for a file of the node, which may come late. Path is absolute.
type FileReq struct {
	Path       string `json:"path"`
	WaitMillis int64  `json:"wait_ms,omitempty"`
}

// FileAns is the file's text, UTF-8.
type FileAns struct {
	Text string `json:"text"`
	// Private is why the text stays on the node, although the file exists: not every user may read it.
	Private string `json:"private,omitempty"`
}

// CredentialReq asks whether a credential exists.
type CredentialReq struct {
	Name string `json:"name"`
}

// CredentialAns is the credential's source. Its bytes are not in the answer: apply and the cluster's adapter read them
// themselves.
type CredentialAns struct {
	Source string `json:"source"`
}

// VariableReq asks for a value from outside the site's files.
type VariableReq struct {
	Name      string `json:"name"`
	Sensitive bool   `json:"sensitive,omitempty"`
}

// VariableAns is the text and its source; a sensitive one has no text.
type VariableAns struct {
	Text   string `json:"text,omitempty"`
	Source string `json:"source"` // credential | cmdline | flag
}

// ValidationReq asks whether a sensitive variable passes its rule number Rule, which only the node can evaluate.
type ValidationReq struct {
	Variable string `json:"variable"`
	Rule     int    `json:"rule"`
}

// ValidationAns is the result of a rule over the real value.
type ValidationAns struct {
	OK bool `json:"ok"`
}

// Access is how to reach the cluster and to verify it; Token names a credential.
type Access struct {
	Servers       []string `json:"servers"`
	CACertHashes  []string `json:"ca_cert_hashes,omitempty"`
	CAFile        string   `json:"ca_file,omitempty"`
	DiscoveryFile string   `json:"discovery_file,omitempty"`
	TrustToken    bool     `json:"trust_token,omitempty"`
	Token         string   `json:"token,omitempty"` // the credential's name
	ProxyURL      string   `json:"proxy_url,omitempty"`
	RetryMillis   int64    `json:"retry_ms,omitempty"`
}

// TrustReq asks for the cluster's identity.
type TrustReq struct {
	Access
}

// TrustAns is the verified identity.
type TrustAns struct {
	PEM        string   `json:"pem"`
	Hash       string   `json:"hash"` // sha256:… of the first CA's public key
	Servers    []string `json:"servers"`
	VerifiedBy string   `json:"verified_by"` // ca_cert_hashes | ca_file | discovery_file | token | last-good
	// LeftOut are CAs of the cluster that are not in PEM, because the site does not pin them. Unmatched are pins that
	// no CA of the cluster has. Older recordings have neither.
	LeftOut   []string `json:"left_out,omitempty"`
	Unmatched []string `json:"unmatched,omitempty"`
	// Expired are CAs in PEM that had expired when it was read, and NoneValid is set if no other is in it. Older
	// recordings have neither.
	Expired   []string `json:"expired,omitempty"`
	NoneValid bool     `json:"none_valid,omitempty"`
	// Assumed is set if PEM replaces that of a cluster, as --objects does, and VerifiedBy has not verified it. Older
	// recordings do not have it.
	Assumed bool `json:"assumed,omitempty"`
}

// ObjectReq asks for a ConfigMap.
type ObjectReq struct {
	Access
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Optional  bool   `json:"optional,omitempty"` // it may not exist, so that is not retried
}

// ObjectAns is the ConfigMap's data.
type ObjectAns struct {
	ResourceVersion string            `json:"resource_version"`
	Data            map[string]string `json:"data"`
	Binary          []string          `json:"binary,omitempty"` // keys whose values are not text
	// Refused is why the server does not accept the identity in kubelet.conf, if it was read with the token instead.
	Refused string `json:"refused,omitempty"`
}

// NodeReq asks the cluster, with the node's join credentials, whether another machine has the node's name. "" is the
// host's name.
type NodeReq struct {
	Access
	Name string `json:"name,omitempty"`
	Own  bool   `json:"own,omitempty"` // this node has joined under the name: with its own credentials, Ready or not
}

// NodeAns reports whether one does, without the id of a machine.
type NodeAns struct {
	Name  string `json:"name"`
	Taken string `json:"taken,omitempty"` // the node of another machine, described; "": none
	Note  string `json:"note,omitempty"`  // why the cluster did not answer
}

// HardwareReq asks for the hardware, after waiting for links and drivers.
type HardwareReq struct {
	WaitLinks   []string `json:"wait_links,omitempty"`
	WaitDrivers []string `json:"wait_drivers,omitempty"`
	WaitUnits   []string `json:"wait_units,omitempty"`
	WaitMillis  int64    `json:"wait_ms,omitempty"`
}

// KubeletReq asks for the installed kubelet.
type KubeletReq struct{}

// KubeletAns is the kubelet's version (null without a binary) and whether this node has joined.
type KubeletAns struct {
	Version *string `json:"version"` // v1.36.3
	// VersionWhy is why a kubelet that was asked did not print its version; "" also in older recordings.
	VersionWhy string `json:"version_why,omitempty"`
	Joined     bool   `json:"joined"`
	JoinedWhy  string `json:"joined_why"` // the reason
	// Identity is that of the kubelet.conf, joined or not; nil without one.
	Identity *IdentityAns `json:"identity,omitempty"`
	// Damaged is the client certificate with which no kubelet starts; nil where there is none, and in older recordings.
	Damaged *DamagedAns `json:"damaged,omitempty"`
	// DamagedServing and DamagedOwn are the same of the certificate of its API: signed by the cluster, and self-signed.
	DamagedServing *DamagedAns `json:"damaged_serving,omitempty"`
	DamagedOwn     *DamagedAns `json:"damaged_own,omitempty"`
	// The environment of its next start; 0 and nil are unknown.
	Cgroup int   `json:"cgroup,omitempty"` // the hierarchy's version, 1 or 2
	Swap   *bool `json:"swap,omitempty"`   // some is on
	// Hierarchies are the folders of version 1 in which it looks for a control group.
	Hierarchies []string `json:"hierarchies,omitempty"`
	Disk        int64    `json:"disk,omitempty"` // bytes of the filesystem of its folder
	// Kernel has the sysctls that protectKernelDefaults checks: vm/overcommit_memory, …
	Kernel map[string]int64 `json:"kernel,omitempty"`
	// Resolver is the resolvConf that kubeadm would write on this node, "" for none: systemd-resolved's own file, where
	// that runs. It is decided once for a node, so a recording that is older has none.
	Resolver string `json:"resolver,omitempty"`
	// Runtime is the container runtime that this machine is configured for, nil: none is known.
	Runtime *RuntimeAns `json:"runtime,omitempty"`
}

// KnownVersion returns the kubelet's version; "" if it is not known.
func (a KubeletAns) KnownVersion() string {
	if a.Version == nil {
		return ""
	}

	return *a.Version
}

// RuntimeAns is a container runtime, as it reports itself if it runs, and by its configuration. Unknown fields are "".
type RuntimeAns struct {
	Endpoint string `json:"endpoint"` // unix:///run/containerd/containerd.sock
	Name     string `json:"name,omitempty"`
	Version  string `json:"version,omitempty"`       // as it reports it
	Reported string `json:"told,omitempty"`          // its cgroup driver, as it reports it: systemd | cgroupfs
	Driver   string `json:"cgroup_driver,omitempty"` // by its configuration
	// NoConfig: it has answered, and does not implement RuntimeConfig. Older recordings do not have it; then its
	// version decides.
	NoConfig bool `json:"no_runtime_config,omitempty"`
}

// IdentityAns is the identity that a kubelet.conf gives.
type IdentityAns struct {
	// Of the client certificate, system:node:NAME; "" for one of another kind.
	Node    string   `json:"node,omitempty"`
	Host    string   `json:"host,omitempty"`    // the node name that the kubelet would choose itself; "" unknown
	Foreign string   `json:"foreign,omitempty"` // the marks that show that it is another machine's
	Doubt   string   `json:"doubt,omitempty"`   // the marks that differ, where it is not known whose it is
	Changed string   `json:"changed,omitempty"` // a mark of this machine that has changed
	Ours    bool     `json:"ours,omitempty"`    // a generation is in place, and nothing proves another machine
	Older   bool     `json:"older,omitempty"`   // it was written before this machine got its machine id
	Files   []string `json:"files,omitempty"`   // with the identity, and with state of what ran under it
	// CA is the PEM of the CAs in the kubelet.conf of a joined node; "" if that names a file. Kubeconfig is its text;
	// "" if it contains a credential, or may be changed by other users. Older recordings have neither.
	CA         string `json:"ca,omitempty"`
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Users besides root who may change it, so that prelet does not use it with a cluster.
	Loose string `json:"loose,omitempty"`
	Fix   string `json:"mend,omitempty"` // how to fix that
}

// DamagedAns is a certificate in the kubelet's folder that it cannot load, such as an empty one. It loads that before
// it joins, so it ends with it although it has a token.
type DamagedAns struct {
	Why    string   `json:"why"`             // why the kubelet cannot load it
	Files  []string `json:"files,omitempty"` // without which it gets another one; none where another program has them
	Remove string   `json:"remove"`          // the command that removes it
}

// Next returns the next step where a run sets the certificate aside as described: without Files there is only Remove.
func (d *DamagedAns) Next(run string) string {
	if len(d.Files) == 0 {
		return d.Remove
	}

	return run + "; by hand: " + d.Remove
}

// AcceptsReq asks for the flags and feature gates of the kubelet's binary.
type AcceptsReq struct{}

// AcceptsAns is the list of its --help. A deprecated flag is in Deprecated only; a gate is NAME=true or
// NAME=false, its default, in the list of its stage.
type AcceptsAns struct {
	Flags      []string `json:"flags"`
	Deprecated []string `json:"deprecated"`
	Alpha      []string `json:"alpha"`
	Beta       []string `json:"beta"`
}

// DryRunReq asks whether the kubelet's binary accepts the finished command line and configuration of a plan. They may
// contain secrets, so the request has their digest, and the source gets them from the plan: see evaluate.RunInput.
type DryRunReq struct {
	Kubelet string `json:"kubelet"` // its version; "" is unknown
	Digest  string `json:"digest"`  // of the planned files, see boot
}

// DryRunAns is the verdict of the kubelet's binary. A failure is fault.Unread if it was not asked, and says otherwise
// why it did not answer.
type DryRunAns struct {
	Accepted bool   `json:"accepted,omitempty"`
	Refusal  string `json:"refusal,omitempty"` // its own words
	Broken   string `json:"broken,omitempty"`  // why it cannot run on the machine
	Program  string `json:"program"`           // its path
}

// ConfigDumpReq asks whether the container runtime accepts its configuration as the plan leaves it. The digest is of
// the planned files, which the source gets from the plan: see evaluate.RunInput.
type ConfigDumpReq struct {
	Digest string `json:"digest"`
}

// ConfigDumpAns is the verdict of the container runtime; of its configuration it has nothing else. Failures are those
// of DryRunAns.
type ConfigDumpAns struct {
	Refusal string `json:"refusal,omitempty"` // its own words; "" if it accepts
	File    string `json:"file,omitempty"`    // the first file with which it refuses
	Program string `json:"program"`           // its path
}

// ExistsReq asks whether a path exists and, with Program, whether it can be executed. Path is absolute.
type ExistsReq struct {
	Path    string `json:"path"`
	Program bool   `json:"program,omitempty"`
	// Providers: the path is the configuration of image credential providers, a file or a folder.
	Providers bool `json:"providers,omitempty"`
}

// ExistsAns reports whether the file exists.
type ExistsAns struct {
	Exists bool   `json:"exists"`
	Target string `json:"target,omitempty"` // the target of links; "" if the path is the file itself
	// Refused is why a program cannot be executed, or a configuration of providers not be read; "" if it can, or if the
	// question was not asked.
	Refused string `json:"refused,omitempty"`
	// Providers are the names of the plugins in a configuration of providers, of which a recording has nothing else.
	Providers []string `json:"providers,omitempty"`
}

// DropInsReq asks which files of a folder the kubelet merges into its configuration. Dir is absolute. In a recording
// that is older than the question there are none.
type DropInsReq struct {
	Dir string `json:"dir"`
}

// DropInsAns has their paths, in the order in which the kubelet merges them.
type DropInsAns struct {
	Paths []string `json:"paths"`
	// Unlisted is why the kubelet could not list the folder, and would not start. Older recordings do not have it.
	Unlisted string `json:"unlisted,omitempty"`
}

// ServingReq asks whether a kubelet would accept a file of CAs, or, with Key, a certificate and its private key. A
// text is the planned content of the file, with placeholders for secrets; nil: the existing file.
type ServingReq struct {
	Cert     string  `json:"cert"`
	Key      string  `json:"key,omitempty"`
	CertText *string `json:"cert_text,omitempty"`
	KeyText  *string `json:"key_text,omitempty"`
}

// ServingAns is the reason why not, in the kubelet's words. Of a private key it contains only whether it is valid and
// belongs to the certificate.
type ServingAns struct {
	Refused string `json:"refused,omitempty"`
}

// OriginalReq asks for the content of a managed file before prelet wrote it.
type OriginalReq struct {
	Path string `json:"path"`
}

// TargetReq asks for the state of a file that is planned or managed. With Secret the planned text is compared on the
// node, and the answer has no text: Want has placeholders for secrets.
type TargetReq struct {
	Path   string `json:"path"`
	Secret bool   `json:"secret,omitempty"`
	Want   string `json:"want,omitempty"`
}

// TargetAns is the state of such a file. Same is for secrets only.
type TargetAns struct {
	Exists bool   `json:"exists"`
	Dir    bool   `json:"dir,omitempty"`
	Empty  bool   `json:"empty,omitempty"` // of a folder
	Mode   uint32 `json:"mode,omitempty"`
	UID    int    `json:"uid,omitempty"`
	GID    int    `json:"gid,omitempty"`
	Owner  string `json:"owner,omitempty"` // USER:GROUP by name; "" for root
	Own    bool   `json:"own,omitempty"`   // it belongs to prelet's own user, which is not root
	SHA256 string `json:"sha256,omitempty"`
	Text   string `json:"text,omitempty"`
	Same   bool   `json:"same,omitempty"`
	// Private: the answer has neither content nor hash, because the file has a secret, or not every user may
	// read it.
	// To compare it with the plan, ask with Secret.
	Private bool `json:"private,omitempty"`
	// Uncompared is why the file could not be compared: its credential is not here, or this user may not read it.
	Uncompared string `json:"uncompared,omitempty"`
	// Loose is the folder above it that others may write, so that nothing in it was read; Uncompared names them.
	Loose string `json:"loose,omitempty"`
	Drift string `json:"drift,omitempty"` // the difference to the content that the last generation wrote; "": none
	// Garbled: it is at the path of a state of the kubelet's managers, and is not a JSON object, so the kubelet does
	// not start with it. Older recordings do not have it, so such a state stays in their plans.
	Garbled bool `json:"garbled,omitempty"`
	// Left is the mode and owner of a managed file where the site sets none; nil: the present ones. Older
	// recordings do not have it.
	Left *TargetMeta `json:"left,omitempty"`
	// Attributes are the names of its extended attributes that prelet does not keep in each case. Older recordings
	// do not have them.
	Attributes []string `json:"attributes,omitempty"`
}

// TargetMeta is the mode and the owner of a managed file.
type TargetMeta struct {
	Mode uint32 `json:"mode"`
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
}

// OwnerReq asks for an owner, USER:GROUP. The failure of a missing owner is fault.Absent.
type OwnerReq struct {
	Owner string `json:"owner"`
}

// OwnerAns has no fields: without a failure the user and the group exist.
type OwnerAns struct{}

// UnitReq asks for a unit of systemd; with Start, how it starts its process.
type UnitReq struct {
	Name  string `json:"name"`
	Start bool   `json:"start,omitempty"`
}

// UnitAns is systemd's state of the unit: LoadState, paths that its processes may write, and refused actions.
type UnitAns struct {
	Load     string   `json:"load"`               // loaded, not-found, masked, …
	Strict   bool     `json:"strict,omitempty"`   // ProtectSystem=strict
	Writable []string `json:"writable,omitempty"` // ReadWritePaths=
	// Refuses are the actions of a restart stage that systemd refuses by hand: restart, reload. Older recordings have
	// none: then a refusal is reported after the commit.
	Refuses []string `json:"refuses,omitempty"`

	// Refused is why systemd does not load it, with the place. Older recordings do not have it.
	Refused string `json:"refused,omitempty"`

	Start *StartAns `json:"start,omitempty"` // of a unit that is loaded
}

// StartAns is how a unit starts its process. Values of variables that its words do not name are not in it.
type StartAns struct {
	// The program and its arguments, with variables as they are written.
	Words []string `json:"words"`
	// At is the place of the command line, FILE:LINE, and VarsAt that of each variable of Environment=. Literal is set
	// if systemd replaces no variables in it. Older recordings do not have them.
	At      string            `json:"at,omitempty"`
	VarsAt  map[string]string `json:"vars_at,omitempty"`
	Literal bool              `json:"literal,omitempty"`
	Folder  string            `json:"folder,omitempty"` // WorkingDirectory=, "" for the root; not in older recordings
	Files   []string          `json:"files,omitempty"`  // EnvironmentFile=
	Vars    map[string]string `json:"vars,omitempty"`   // of Environment=, those that words name
	Sets    []string          `json:"sets,omitempty"`   // the names of those in Environment= that are not empty
	// Unset is UnsetEnvironment=, NAME or NAME=VALUE, without values that may be secret; not in older recordings.
	Unset []string `json:"unset,omitempty"`
	// Read are the variables that words name in each environment file that could be read, or does not exist; nil for a
	// value that may be a secret. Older recordings have only kubeadm's file and the flags file, as questions of their
	// own.
	Read map[string]map[string]*string `json:"read,omitempty"`
	// WatchdogMicros is WatchdogSec=, 0 for none. Older recordings do not have it: then no watchdog is checked.
	WatchdogMicros int64 `json:"watchdog_us,omitempty"`
	// Aliases are the other names of the unit, whose drop-ins apply to it. Older recordings do not have them.
	Aliases []string `json:"aliases,omitempty"`
	// Broken is why the program cannot be executed, or what else the unit needs and is missing; Missing is its path.
	// Older recordings do not have them.
	Broken  string `json:"broken,omitempty"`
	Missing string `json:"missing,omitempty"`
}

// LogindReq asks how long logind delays a shutdown for a program such as the kubelet. It is asked only with a
// shutdownGracePeriod.
type LogindReq struct{}

// LogindAns has the settings that decide logind's InhibitDelayMaxSec. A recording that is older than the question has
// no answer, which gives no warning.
type LogindAns struct {
	Missing     bool           `json:"missing,omitempty"`   // systemd-logind is not installed, or masked
	DelayMicros int64          `json:"delay_us,omitempty"`  // the present one; 0: logind does not run or answer
	DropIns     []LogindDropIn `json:"drop_ins,omitempty"`  // those that set it, as logind orders them
	ReadOnly    bool           `json:"read_only,omitempty"` // the folder of the kubelet's own drop-in
}

// LogindDropIn is a drop-in of logind's configuration that sets InhibitDelayMaxSec.
type LogindDropIn struct {
	Path  string `json:"path"`
	Value string `json:"value"` // as it is written: 30, 1min 30s
}

// HostReq asks for what kubeadm checks on a machine before a kubelet starts, although the kubelet starts without it.
// Ports are those that the kubelet will listen on.
type HostReq struct {
	Ports []int64 `json:"ports"`
}

// HostAns lists missing requirements and occupied ports. Older recordings have no answer and cause no warning.
type HostAns struct {
	NoForward   bool          `json:"no_forward,omitempty"`          // the kernel does not forward IPv4 packets
	Controllers []string      `json:"missing_controllers,omitempty"` // of cgroup v2
	Programs    []string      `json:"missing_programs,omitempty"`    // those that the kubelet executes
	Listeners   []ListenerAns `json:"listeners,omitempty"`           // without a kubelet that runs
	NoNetwork   string        `json:"no_network,omitempty"`          // the runtime's folder of CNI, if it has no file
}

// ListenerAns is a socket that listens on a port of the kubelet.
type ListenerAns struct {
	At      netip.AddrPort `json:"at"`
	PID     int            `json:"pid,omitempty"`     // 0: it may not be read
	Process string         `json:"process,omitempty"` // the name that the process gives itself
}

// PackagesReq asks which packages of the system own files, by dpkg's database or rpm.
type PackagesReq struct {
	Paths []string `json:"paths"`
}

// PackagesAns has the owners of those files that a package owns. Older recordings have no answer: then nothing is said.
type PackagesAns struct {
	Owners map[string]string `json:"owners,omitempty"` // packages by path
}

// ManagedReq asks for the managed files of the generation in place.
type ManagedReq struct{}

// ManagedAns is empty before the first generation.
type ManagedAns struct {
	Generation int             `json:"generation"`
	Targets    []ManagedTarget `json:"targets"`
}

// ManagedTarget is one managed file of the generation in place, and the action if the site does not declare it.
type ManagedTarget struct {
	Path    string `json:"path"`
	Purpose string `json:"purpose,omitempty"`
	Action  string `json:"action"` // delete | restore | keep | none
	Why     string `json:"why,omitempty"`
	// Notify is the site's setting, as "restart chrony.service". Targets of older versions have none, which means the
	// default.
	Notify []string `json:"notify,omitempty"`
}

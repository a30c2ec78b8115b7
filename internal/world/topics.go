package world

// FileReq asks for a file of the node, which may come late. Path is absolute.
type FileReq struct {
	Path       string `json:"path"`
	WaitMillis int64  `json:"wait_ms,omitempty"`
}

// FileAns is its text, UTF-8.
type FileAns struct {
	Text string `json:"text"`
}

// CredentialReq asks whether a credential is there.
type CredentialReq struct {
	Name string `json:"name"`
}

// CredentialAns says where from. Its bytes are no answer: apply and the cluster's adapter fetch them by themselves.
type CredentialAns struct {
	Source string `json:"source"`
}

// VariableReq asks for a value that the site's files do not give.
type VariableReq struct {
	Name      string `json:"name"`
	Sensitive bool   `json:"sensitive,omitempty"`
}

// VariableAns is the text and its source; a sensitive one has no text.
type VariableAns struct {
	Text   string `json:"text,omitempty"`
	Source string `json:"source"` // credential | cmdline | flag
}

// ValidationReq asks whether a sensitive variable passes its rule number Rule: only the node can tell.
type ValidationReq struct {
	Variable string `json:"variable"`
	Rule     int    `json:"rule"`
}

// ValidationAns says whether it does.
type ValidationAns struct {
	OK bool `json:"ok"`
}

// Access is how the cluster is reached and believed; Token names a credential.
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

// TrustReq asks who the cluster is.
type TrustReq struct {
	Access
}

// TrustAns is the verified identity.
type TrustAns struct {
	PEM        string   `json:"pem"`
	Hash       string   `json:"hash"` // sha256:… of the first CA's public key
	Servers    []string `json:"servers"`
	VerifiedBy string   `json:"verified_by"` // ca_cert_hashes | ca_file | discovery_file | token | last-good
}

// ObjectReq asks for a ConfigMap.
type ObjectReq struct {
	Access
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Optional  bool   `json:"optional,omitempty"` // that it is not there is an answer, and not one to wait for
}

// ObjectAns is its data.
type ObjectAns struct {
	ResourceVersion string            `json:"resource_version"`
	Data            map[string]string `json:"data"`
	Binary          []string          `json:"binary,omitempty"` // keys whose values are not text
}

// NodeReq asks the cluster, with what the node joins with, whether another machine has its name. "" is the host's.
type NodeReq struct {
	Access
	Name string `json:"name,omitempty"`
}

// NodeAns says whether one does. No machine's id is in it.
type NodeAns struct {
	Name  string `json:"name"`
	Taken string `json:"taken,omitempty"` // what the cluster knows of the Ready node of another machine; "": none
	Note  string `json:"note,omitempty"`  // why the cluster did not say
}

// FactsReq asks for the hardware, waiting first for links and drivers to be there.
type FactsReq struct {
	WaitLinks   []string `json:"wait_links,omitempty"`
	WaitDrivers []string `json:"wait_drivers,omitempty"`
	WaitMillis  int64    `json:"wait_ms,omitempty"`
}

// KubeletReq asks about the kubelet at hand.
type KubeletReq struct{}

// KubeletAns tells its version (null if there is no binary) and whether this node has joined.
type KubeletAns struct {
	Version   *string `json:"version"` // v1.36.3
	Joined    bool    `json:"joined"`
	JoinedWhy string  `json:"joined_why"` // what spoke for or against it
	// Identity is whose kubelet.conf is there, joined or not; nil: there is none.
	Identity *IdentityAns `json:"identity,omitempty"`
	// What it would find when it starts; 0 and nil are unknown.
	Cgroup int   `json:"cgroup,omitempty"` // the hierarchy's version, 1 or 2
	Swap   *bool `json:"swap,omitempty"`   // some is on
	// Hierarchies are the folders of version 1 in which it looks for a control group.
	Hierarchies []string `json:"hierarchies,omitempty"`
	Disk        int64    `json:"disk,omitempty"` // bytes of the filesystem of its folder
	// Kernel is what the kernel has of what protectKernelDefaults is about: vm/overcommit_memory, …
	Kernel map[string]int64 `json:"kernel,omitempty"`
	// Resolver is the resolvConf that kubeadm would write on this node, "" for none: systemd-resolved's own file, where
	// that runs. It is decided once for a node, so a recording that is older has none.
	Resolver string `json:"resolver,omitempty"`
	// Runtime is the container runtime that this machine is configured for, nil: none is known.
	Runtime *RuntimeAns `json:"runtime,omitempty"`
}

// RuntimeAns is a container runtime as it told itself, where it runs already, and as its configuration has it. A field that is
// not known is "".
type RuntimeAns struct {
	Endpoint string `json:"endpoint"` // unix:///run/containerd/containerd.sock
	Name     string `json:"name,omitempty"`
	Version  string `json:"version,omitempty"`       // by itself
	Told     string `json:"told,omitempty"`          // its cgroup driver, by itself: systemd | cgroupfs
	Driver   string `json:"cgroup_driver,omitempty"` // by its configuration
}

// IdentityAns is the identity that a kubelet.conf gives.
type IdentityAns struct {
	Node    string   `json:"node,omitempty"`    // of the client certificate, system:node:NAME; "" for one of another kind
	Host    string   `json:"host,omitempty"`    // how the kubelet here would call its node when prelet does not say; "" unknown
	Foreign string   `json:"foreign,omitempty"` // why it is certainly another machine's
	Ours    bool     `json:"ours,omitempty"`    // a generation is in place, and nothing says that it is another machine's
	Older   bool     `json:"older,omitempty"`   // it was written before this machine got its machine id
	Files   []string `json:"files,omitempty"`   // that hold it, and that remember what ran under it
	Loose   string   `json:"loose,omitempty"`   // who besides root may change it, so that prelet asks no cluster with it
	Mend    string   `json:"mend,omitempty"`    // what ends that
}

// AcceptsReq asks what the kubelet's binary takes.
type AcceptsReq struct{}

// AcceptsAns is what its --help lists. A flag that is deprecated stands in Deprecated only; a gate is NAME=true or
// NAME=false, its default, in the list of its stage.
type AcceptsAns struct {
	Flags      []string `json:"flags"`
	Deprecated []string `json:"deprecated"`
	Alpha      []string `json:"alpha"`
	Beta       []string `json:"beta"`
}

// ExistsReq asks whether there is something at a path. Path is absolute.
type ExistsReq struct {
	Path string `json:"path"`
}

// ExistsAns says whether there is.
type ExistsAns struct {
	Exists bool   `json:"exists"`
	Target string `json:"target,omitempty"` // where links lead to; "" where the path is the file itself
}

// DropInsReq asks which files of a folder the kubelet merges into its configuration. Dir is absolute. In a recording that is
// older than the question there are none.
type DropInsReq struct {
	Dir string `json:"dir"`
}

// DropInsAns has their paths, in the order in which the kubelet merges them.
type DropInsAns struct {
	Paths []string `json:"paths"`
}

// ServingReq asks whether a kubelet would take a file of CAs, or, with Key, a certificate and its private key. A text is what
// the plan writes to that file, with placeholders where secrets go; nil: what is there counts.
type ServingReq struct {
	Cert     string  `json:"cert"`
	Key      string  `json:"key,omitempty"`
	CertText *string `json:"cert_text,omitempty"`
	KeyText  *string `json:"key_text,omitempty"`
}

// ServingAns says why not, in the kubelet's words. Nothing of a private key is in it but whether it is one, and the
// certificate's.
type ServingAns struct {
	Refused string `json:"refused,omitempty"`
}

// OriginalReq asks what a target held before prelet ever wrote it.
type OriginalReq struct {
	Path string `json:"path"`
}

// TargetReq asks what a target holds now. With Secret the planned text is compared on the node, and no text
// comes back: Want has placeholders where secrets go.
type TargetReq struct {
	Path   string `json:"path"`
	Secret bool   `json:"secret,omitempty"`
	Want   string `json:"want,omitempty"`
}

// TargetAns is a target's state. Same is for secrets only.
type TargetAns struct {
	Exists bool   `json:"exists"`
	Dir    bool   `json:"dir,omitempty"`
	Empty  bool   `json:"empty,omitempty"` // of a folder
	Mode   uint32 `json:"mode,omitempty"`
	UID    int    `json:"uid,omitempty"`
	GID    int    `json:"gid,omitempty"`
	Owner  string `json:"owner,omitempty"` // USER:GROUP by name; "" for root
	SHA256 string `json:"sha256,omitempty"`
	Text   string `json:"text,omitempty"`
	Same   bool   `json:"same,omitempty"`
	// Private is a file whose content is not told, nor its hash: it holds a secret, or others than its owner may not read it.
	// Who needs to know whether it is as planned asks with Secret.
	Private bool `json:"private,omitempty"`
	// Uncompared is why a target could not be compared: its credential is not here, or this user may not read it.
	Uncompared string `json:"uncompared,omitempty"`
	// Loose is the folder above it that others may write, so that nothing in it was read; Uncompared says who.
	Loose string `json:"loose,omitempty"`
	Drift string `json:"drift,omitempty"` // how it differs from what the last generation wrote; "" if it does not
	// Left is what a managed target has where the site sets no mode or owner; nil: what it has. A recording that is older
	// than the field has none.
	Left *TargetMeta `json:"left,omitempty"`
}

// TargetMeta is the mode and the owner of a target.
type TargetMeta struct {
	Mode uint32 `json:"mode"`
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
}

// OwnerReq asks for an owner, USER:GROUP. The failure of one that is not there is fault.Absent.
type OwnerReq struct {
	Owner string `json:"owner"`
}

// OwnerAns is empty.
type OwnerAns struct{}

// UnitReq asks for a unit of systemd; with Start, how it starts its process.
type UnitReq struct {
	Name  string `json:"name"`
	Start bool   `json:"start,omitempty"`
}

// UnitAns is what systemd has of it: LoadState, what its processes may write, and what it refuses.
type UnitAns struct {
	Load     string   `json:"load"`               // loaded, not-found, masked, …
	Strict   bool     `json:"strict,omitempty"`   // ProtectSystem=strict
	Writable []string `json:"writable,omitempty"` // ReadWritePaths=
	// Refuses are the actions of a restart stage that systemd refuses by hand: restart, reload. A recording of an older
	// prelet has none: what systemd refuses after the commit is reported then.
	Refuses []string `json:"refuses,omitempty"`

	Start *StartAns `json:"start,omitempty"` // of a unit that is loaded
}

// StartAns is how a unit starts its process. Values of variables that its words do not name are not in it.
type StartAns struct {
	Words []string          `json:"words"`           // the program and its arguments, with variables as they are written
	Files []string          `json:"files,omitempty"` // EnvironmentFile=
	Vars  map[string]string `json:"vars,omitempty"`  // of Environment=, those that words name
	Sets  []string          `json:"sets,omitempty"`  // the names of those in Environment= that are not empty
}

// ManagedReq asks what the generation in place holds.
type ManagedReq struct{}

// ManagedAns is empty before the first generation.
type ManagedAns struct {
	Generation int             `json:"generation"`
	Targets    []ManagedTarget `json:"targets"`
}

// ManagedTarget is one target of the generation in place, and what becomes of it if the site does not declare it.
type ManagedTarget struct {
	Path    string `json:"path"`
	Purpose string `json:"purpose,omitempty"`
	Action  string `json:"action"` // delete | restore | keep | none
	Why     string `json:"why,omitempty"`
	// Notify is what the site said of it, as "restart chrony.service". Those of older versions have none: then the rule
	// for files of which a site says nothing holds.
	Notify []string `json:"notify,omitempty"`
}

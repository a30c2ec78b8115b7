package fault

// Codes of answers that are no failure yet, and that have no page: whoever asked decides what they mean, and reports a
// failure with a code of its own. A ConfigMap may be optional, a file may be asked for by fileexists().
const (
	Absent Code = "absent" // it is not there
	Denied Code = "denied" // this user may not look at it, or nobody allowed it on this node
)

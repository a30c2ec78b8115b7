package fault

// Codes of results that are not failures and that have no page. The caller decides what they mean, and reports a
// failure with another code: a ConfigMap may be optional, a file may be checked with fileexists().
const (
	Absent Code = "absent" // the object does not exist
	Denied Code = "denied" // this user may not read it, or it is not allowed on this node
)

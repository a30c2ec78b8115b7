package ovs

// For tests outside of the package.
var (
	Columns = columns
	Address = parseAddress
)

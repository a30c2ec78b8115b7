package contract

// Limits for the output of a detector. prelet rejects output that is larger.
const (
	MaxDescription = 64 << 10 // bytes on the wire
	MaxAnswer      = 1 << 20  // bytes on the wire
	MaxStderr      = 16 << 10 // bytes that are kept

	MaxName    = 63   // bytes of a name, a version, a key
	MaxText    = 4096 // bytes of any other string
	MaxDepth   = 8    // of a type, and so of a value
	MaxValues  = 4096 // scalars in one value
	MaxEntries = 256  // attributes of a description, of the machine, of a device
	MaxSeconds = 300  // of one detection

	MaxDevices = 1024
	MaxLabels  = 64
	MaxNotes   = 64 // warnings, problems
	MaxAsks    = 64 // entries of one list of Match or Needs
)

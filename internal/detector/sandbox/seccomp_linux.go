package sandbox

import (
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/plugins/refused"
)

// loadProcessFilter refuses, for all threads of this process and their children, the system calls that no detector
// may make.
func loadProcessFilter() error {
	filter := refused.Filter(refused.RefuseResult, refused.AbsentResult)
	_, err := refused.Load(filter, unix.SECCOMP_FILTER_FLAG_TSYNC)

	return err
}

// loadConnectFilter refuses connect(2) to the calling thread, and to the program that it executes.
func loadConnectFilter() error {
	const offsetNumber = 0 // in struct seccomp_data
	_, err := refused.Load([]bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
		bpf.JumpIf{
			Cond:      bpf.JumpEqual,
			Val:       unix.SYS_CONNECT,
			SkipFalse: 1,
		},
		bpf.RetConstant{Val: refused.RefuseResult},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW},
	}, 0)

	return err
}

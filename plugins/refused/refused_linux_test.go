package refused

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestCalls holds the table against a list of its own, so that nothing leaves it unseen: the tests of the filters ask the table.
func TestCalls(t *testing.T) {
	want := strings.Fields(`
		setsid setpgid
		ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp process_madvise
		io_uring_setup io_uring_enter io_uring_register
		memfd_create memfd_secret shmget msgget semget mq_open
		setxattr lsetxattr fsetxattr setxattrat
		bpf perf_event_open userfaultfd keyctl add_key request_key init_module finit_module delete_module kexec_load kexec_file_load fanotify_init
		mount umount2 pivot_root chroot unshare setns open_tree move_mount fsopen fsmount fspick mount_setattr personality
		open_by_handle_at name_to_handle_at quotactl quotactl_fd
		sync syncfs`)
	slices.Sort(want)
	if got := slices.Sorted(maps.Values(Calls())); !slices.Equal(got, want) {
		t.Errorf("the table refuses\n%v, want\n%v", got, want)
	}
	want = []string{"clone3", "map_shadow_stack", "mremap"}
	if got := slices.Sorted(maps.Values(Absent())); !slices.Equal(got, want) {
		t.Errorf("the calls that do not exist: got %v, want %v", got, want)
	}

	all := Calls()
	maps.Copy(all, Absent())
	for number, name := range all {
		if what, refused := Call(number, [6]uint64{}); !refused || what != name {
			t.Errorf("%s is %q %v", name, what, refused)
		}
	}
}

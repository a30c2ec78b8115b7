// Command fakecri serves Kubernetes' own fake of a container runtime, which is enough for a real kubelet to register
// its Node: it runs no container.
//
//	fakecri SOCKET DRIVER FSROOT
//
// SOCKET is a path, DRIVER the cgroup driver that it reports (cgroupfs, systemd, or none for a runtime that reports
// none), FSROOT the folder whose disk it names as that of its images. It may touch nothing but its socket.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-client/pkg/fake"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: fakecri SOCKET cgroupfs|systemd|none FSROOT")
		os.Exit(64)
	}
	socket, driver, root := os.Args[1], os.Args[2], os.Args[3]
	runtime := fake.NewFakeRemoteRuntime()
	switch driver {
	case "cgroupfs":
		runtime.RuntimeService.FakeLinuxConfiguration = &cri.LinuxRuntimeConfiguration{
			CgroupDriver: cri.CgroupDriver_CGROUPFS,
		}
	case "systemd":
		runtime.RuntimeService.FakeLinuxConfiguration = &cri.LinuxRuntimeConfiguration{
			CgroupDriver: cri.CgroupDriver_SYSTEMD,
		}
	case "none":
	default:
		fmt.Fprintf(os.Stderr, "fakecri: no cgroup driver %q\n", driver)
		os.Exit(64)
	}
	usage := []*cri.FilesystemUsage{{
		Timestamp:  time.Now().UnixNano(),
		FsId:       &cri.FilesystemIdentifier{Mountpoint: root},
		UsedBytes:  &cri.UInt64Value{Value: 1 << 20},
		InodesUsed: &cri.UInt64Value{Value: 100},
	}}
	runtime.ImageService.FakeFilesystemUsage = usage
	runtime.ImageService.SetFakeImageSize(1 << 20) // of pulled ones: without a size the kubelet starts no container
	runtime.ImageService.FakeContainerFilesystemUsage = usage

	if err := runtime.Start("unix://" + socket); err != nil {
		fmt.Fprintln(os.Stderr, "fakecri:", err)
		os.Exit(1)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	<-stop
	runtime.Stop()
}

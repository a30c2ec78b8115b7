package rehearsal

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/plugins/contract"
)

// RemovedDevices removes PCI devices from answers. The zero value removes none.
type RemovedDevices struct {
	Addresses []string
	Recorded  []tape.Entry // the answers of a recording; nil where a machine answers
}

func (w RemovedDevices) removes(address string) bool {
	return slices.Contains(w.Addresses, address)
}

func (w RemovedDevices) removesAt(address *string) bool {
	return address != nil && w.removes(*address)
}

// removeFacts returns the hardware without the devices: they are not on the bus, and nothing was found on them.
func (w RemovedDevices) removeFacts(was tape.Answer) tape.Answer {
	var f tape.Facts
	if len(w.Addresses) == 0 || was.Fault != nil || json.Unmarshal(was.Value, &f) != nil {
		return was
	}

	f.PCI = slices.DeleteFunc(f.PCI, func(d tape.PCIDevice) bool {
		return w.removes(d.Address)
	})
	f.Accelerators = slices.DeleteFunc(f.Accelerators, func(a tape.Accelerator) bool {
		return w.removesAt(a.Address)
	})
	f.NICs = slices.DeleteFunc(f.NICs, func(n tape.NIC) bool {
		if !w.removesAt(n.Address) {
			return false
		}
		if n.Interface != nil {
			delete(f.Interfaces, *n.Interface)
			f.DefaultRoute.RemoveInterface(*n.Interface)
		}
		for _, port := range n.InfiniBand {
			if port.Device != nil {
				delete(f.GUIDs, *port.Device)
			}
		}
		return true
	})
	f.Unknown = slices.DeleteFunc(f.Unknown, func(u tape.UnknownFact) bool {
		return w.names(u.Fact)
	})
	maps.DeleteFunc(f.Evidence, func(fact, _ string) bool {
		return w.names(fact)
	})

	a := tape.Hardware.Answer(f)
	a.Withheld = was.Withheld
	return a
}

// names reports whether the name of a fact contains the address of a removed device, as nics[0000:1b:00.0].link.
func (w RemovedDevices) names(fact string) bool {
	return slices.ContainsFunc(w.Addresses, func(a string) bool {
		return strings.Contains(fact, "["+a+"]")
	})
}

// removeReported returns the reply of a detector without the devices. A recording has the reply to the question with
// all devices.
func (w RemovedDevices) removeReported(req tape.DetectorReq, was tape.Answer) tape.Answer {
	if len(w.Addresses) == 0 {
		return was
	}
	if a, isRecorded := w.findRecorded(req); isRecorded {
		was = a
	}

	var reply tape.DetectorAns
	if was.Fault != nil || json.Unmarshal(was.Value, &reply) != nil {
		return was
	}
	reply.Devices = slices.DeleteFunc(reply.Devices, func(d contract.Device) bool {
		return w.removes(d.Address)
	})

	a := tape.Detector.Answer(reply)
	a.Withheld = was.Withheld
	return a
}

// findRecorded returns the recorded reply to a question that differs only in the removed devices.
func (w RemovedDevices) findRecorded(req tape.DetectorReq) (tape.Answer, bool) {
	for _, e := range w.Recorded {
		was, err := tape.Detector.Request(e.Question)
		if e.Kind != tape.KindDetector || err != nil || was.Name != req.Name {
			continue
		}
		was.Devices = slices.DeleteFunc(was.Devices, func(d tape.PCIDevice) bool {
			return w.removes(d.Address)
		})
		if len(was.Devices) == 0 {
			was.Devices = nil
		}
		if tape.Detector.Question(was) == tape.Detector.Question(req) {
			return e.Answer, true
		}
	}
	return tape.Answer{}, false
}

package amdgpu

import (
	"strconv"
	"strings"

	"github.com/prelet/prelet/plugins/sdk"
)

var (
	uncorrectedErrors = sdk.Fact[int]{
		Name: "uncorrected_errors",
		Doc:  "Uncorrected errors of all blocks of all GPUs since the driver was loaded (RAS).",
	}
	badPages = sdk.Fact[int]{
		Name: "bad_pages",
		Doc:  "Bad pages of the memory of all GPUs: those that the driver keeps out of use, and those that it cannot.",
	}
	badPagesPending = sdk.Fact[int]{
		Name: "bad_pages_pending",
		Doc:  "Those of `bad_pages` that are in use until the GPU is reset.",
	}
)

// health sums what amdgpu shows of all GPUs in the folder ras of their PCI functions.
// Source: Linux drivers/gpu/drm/amd/amdgpu/amdgpu_ras.c, amdgpu_ras_sysfs_read and amdgpu_ras_sysfs_badpages_read.
type health struct {
	errors, pages, pending    int
	whyNoErrors, whyNoBadPage string // of the last GPU that does not show it
}

func (h *health) add(r sdk.Root, gpu *sdk.Device) {
	files := r.Glob(gpu.Path("ras/*_err_count"))
	isKnown := len(files) > 0
	if !isKnown {
		h.whyNoErrors = gpu.Path("ras") + " has no counters of errors"
	}
	sum := 0
	for _, file := range files {
		text, _ := r.Text(file)
		n, err := strconv.Atoi(strings.TrimSpace(findField(text, "ue")))
		if err != nil || n < 0 {
			h.whyNoErrors = file + " has no count of uncorrected errors (ue)"
			isKnown = false
			continue
		}
		sum += n
	}
	if isKnown {
		gpu.SetAttribute("uncorrected_errors", strconv.Itoa(sum), gpu.Path("ras"))
	}
	h.errors += sum

	file := gpu.Path("ras/gpu_vram_bad_pages")
	text, err := r.Text(file)
	if err != nil {
		h.whyNoBadPage = err.Error()
		return
	}
	pages := 0
	for line := range strings.Lines(text) { // address : size : R, P or F
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) != 3 {
			continue
		}
		pages++
		if strings.TrimSpace(fields[2]) == "P" {
			h.pending++
		}
	}
	gpu.SetAttribute("bad_pages", strconv.Itoa(pages), file)
	h.pages += pages
}

// findField returns the text after "NAME:" in a line of its own.
func findField(text, name string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return rest
		}
	}

	return ""
}

// report adds the facts. A fault of one GPU is known, whatever the others show.
func (h *health) report(m *sdk.Machine) {
	const folder = "ras of each GPU"
	add := func(f sdk.Fact[int], n int, why string) {
		if why == "" || n > 0 {
			m.AddFacts(f.Is(n, folder))
			return
		}
		m.AddFacts(f.Unknown(why))
	}
	add(uncorrectedErrors, h.errors, h.whyNoErrors)
	add(badPages, h.pages, h.whyNoBadPage)
	add(badPagesPending, h.pending, h.whyNoBadPage)
}

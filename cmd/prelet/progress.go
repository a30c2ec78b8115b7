package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/printer"
)

// newProgress returns a function that shows on a terminal the stages that take longer than a second; nil elsewhere.
func (a *cli) newProgress() func(boot.StageReport) {
	if !printer.IsTerminal(a.stderr) {
		return nil
	}
	var mu sync.Mutex
	waiting := map[string]*time.Timer{}
	return func(e boot.StageReport) {
		mu.Lock()
		defer mu.Unlock()
		if e.State == "running" {
			waiting[e.Address] = time.AfterFunc(time.Second, func() {
				fmt.Fprintf(a.stderr, "… %s\n", e.Address)
			})
			return
		}
		if t := waiting[e.Address]; t != nil && !t.Stop() {
			fmt.Fprintf(
				a.stderr,
				"  %s: %s after %s\n",
				e.Address,
				e.State,
				e.Took.Round(100*time.Millisecond),
			)
		}
		delete(waiting, e.Address)
	}
}

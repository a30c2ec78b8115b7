package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/generation"
)

func (a *cli) history() *cobra.Command {
	w := where{output: "text"}
	show := 0
	c := &cobra.Command{Use: "history", GroupID: "node", Args: noArgument, Short: "List the generations of this node",
		RunE: func(c *cobra.Command, _ []string) error {
			asJSON, err := w.json()
			if err != nil {
				return err
			}
			if err := w.Check(); err != nil {
				return err
			}
			o := generation.Options{Root: w.Root, Dir: w.StateDir()}
			if w.Root == "" {
				h := a.env().Host(c.Context())
				defer h.Units.Close()
				o = h.StoreOptions()
			}
			store, err := generation.OpenReadOnly(o)
			if err != nil {
				return a.storeFailure(err)
			}
			defer store.Close()
			all, err := store.List()
			if err != nil {
				return a.storeFailure(err)
			}
			past := chronicle{FormatVersion: 1, Generations: []chapter{}}
			if len(all) > 0 {
				past.InPlace = all[len(all)-1].Gen
			}
			if gen, why, ok := store.Pinned(); ok {
				past.Pinned = &pin{gen, why}
			}
			if past.Held, err = store.HeldAll(); err != nil {
				return a.storeFailure(err)
			}
			for _, g := range all {
				past.Generations = append(past.Generations, chapterOf(g))
			}
			if c.Flags().Changed("show") {
				i := slices.IndexFunc(past.Generations, func(x chapter) bool { return x.Generation == show })
				if i < 0 {
					return failure(fault.Usage, "there is no generation %d; prelet history lists those that are kept", show)
				}
				if asJSON {
					return a.printJSON(past.Generations[i])
				}
				return a.print(func(o io.Writer) error { return chapterText(o, past.Generations[i]) })
			}
			if asJSON {
				return a.printJSON(past)
			}
			return a.print(func(o io.Writer) error { return chronicleText(o, past) })
		}}
	c.Flags().IntVar(&show, "show", 0, "what generation `N` did to each file")
	c.Flags().StringVar(&w.Root, "root", "", "the generations below `DIR`")
	c.Flags().StringVarP(&w.output, "output", "o", "text", "`FORMAT`: text or json")
	return c
}

// chronicle is what `history -o json` prints.
type chronicle struct {
	FormatVersion int               `json:"format_version"`
	InPlace       int               `json:"in_place"` // 0: there never was one
	Pinned        *pin              `json:"pinned"`   // chosen by hand: no plan is applied
	Held          map[string]string `json:"held"`     // plan → why it is not tried again
	Generations   []chapter         `json:"generations"`
}

type pin struct {
	Generation int    `json:"generation"`
	Why        string `json:"why"`
}

type chapter struct {
	Generation int        `json:"generation"`
	Time       time.Time  `json:"time,omitzero"`
	Status     string     `json:"status"`
	Why        string     `json:"why,omitempty"`
	Restores   *int       `json:"restores,omitempty"` // it went back to the contents of this one; 0 is as before prelet
	Plan       string     `json:"plan"`
	Files      []fileLine `json:"files"`
}

type fileLine struct {
	Path   string `json:"path"`
	Action string `json:"action"`
	Drift  bool   `json:"drift,omitempty"` // somebody had changed it since the generation before
	Secret bool   `json:"sensitive,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Why    string `json:"why,omitempty"`
}

func chapterOf(g generation.Info) chapter {
	out := chapter{Generation: g.Gen, Time: g.Time.UTC(), Status: string(g.Status), Why: g.Why, Plan: g.PlanID, Files: []fileLine{}}
	if g.Restores >= 0 {
		out.Restores = &g.Restores
	}
	for _, e := range g.Entries {
		f := fileLine{Path: e.Path, Action: string(e.Action), Drift: e.Drift, Secret: e.Secret, Why: e.Why}
		if !e.Secret { // even a hash would let somebody guess
			f.SHA256 = e.New.SHA256
		}
		out.Files = append(out.Files, f)
	}
	return out
}

func (c chapter) changed() (n int) {
	for _, f := range c.Files {
		if f.Action != string(generation.ActionNone) && f.Action != string(generation.ActionKeep) {
			n++
		}
	}
	return n
}

func (c chapter) damaged() bool { return c.Status == string(generation.StatusDamaged) }

// inWords is the status for people; programs have the store's own word.
func (c chapter) inWords() string {
	if c.Status == string(generation.StatusRolledBack) {
		return "rolled back"
	}
	return c.Status
}

func (c chapter) remark() string {
	var out []string
	if c.Restores != nil && *c.Restores == 0 {
		out = append(out, "as before prelet")
	} else if c.Restores != nil {
		out = append(out, fmt.Sprintf("contents of %d", *c.Restores))
	}
	if c.Why != "" {
		out = append(out, c.Why)
	}
	return strings.Join(out, "; ")
}

func chronicleText(o io.Writer, c chronicle) error {
	var b strings.Builder
	if len(c.Generations) == 0 {
		b.WriteString("There is no generation yet.\n")
	} else {
		fmt.Fprintf(&b, "  %4s  %-19s  %-11s  %7s\n", "", "time", "status", "changed")
	}
	for _, g := range slices.Backward(c.Generations) {
		mark := " "
		if g.Generation == c.InPlace {
			mark = "*"
		}
		line := fmt.Sprintf("%s %4d  %-19s  %-11s  %7d  %s", mark, g.Generation, g.Time.Local().Format(time.DateTime), g.inWords(), g.changed(), g.remark())
		if g.damaged() { // nothing else is known, and why it is takes more than a line
			line = fmt.Sprintf("%s %4d  %-19s  %-11s  %7s  prelet history --show %[2]d says why", mark, g.Generation, "-", g.inWords(), "-")
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	if c.Pinned != nil {
		fmt.Fprintf(&b, "\nGeneration %d was chosen by hand: %s.\nNothing else is applied until prelet rollback --release.\n", c.Pinned.Generation, c.Pinned.Why)
	}
	for plan, why := range c.Held {
		fmt.Fprintf(&b, "\nHeld: %s: %s.\nprelet run --retry tries it again.\n", short(plan), why)
	}
	_, err := io.WriteString(o, b.String())
	return err
}

// short is a plan's identity as people compare it.
func short(plan string) string {
	hash, version, _ := strings.Cut(strings.TrimPrefix(plan, "sha256:"), "@")
	return hash[:min(12, len(hash))] + " on kubelet " + version
}

func chapterText(o io.Writer, c chapter) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Generation %d, %s", c.Generation, c.inWords())
	if !c.damaged() {
		b.WriteString(", " + c.Time.Local().Format(time.DateTime))
	}
	b.WriteString("\n")
	if r := c.remark(); r != "" {
		fmt.Fprintf(&b, "%s\n", r)
	}
	if c.Plan != "" {
		fmt.Fprintf(&b, "Plan %s\n", short(c.Plan))
	}
	b.WriteString("\n")
	for _, f := range c.Files {
		line := fmt.Sprintf("  %-8s %s", f.Action, f.Path)
		if f.Drift {
			line += "  (somebody had changed it)"
		}
		if f.Why != "" {
			line += "  (" + f.Why + ")"
		}
		b.WriteString(line + "\n")
	}
	_, err := io.WriteString(o, b.String())
	return err
}

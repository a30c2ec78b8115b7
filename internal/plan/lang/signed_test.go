package lang

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/model/tape"
)

func listLine(name, text string) string {
	return fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(text)), name)
}

func TestSignedList(t *testing.T) {
	text := "# counter: 3\n\n# image\n" + listLine("/etc/prelet/a.hcl", "a") + listLine("b c.hcl", "b") +
		listLine("x.prelettest.hcl", "never read") + listLine("README.md", "never read") + listLine("d.preletdata.yaml", "d")
	list, err := ParseList([]byte(text))
	if err != nil || list.Counter != 3 || len(list.hashes) != 3 {
		t.Fatalf("ParseList: got %+v, %v; want counter 3 and three files", list, err)
	}

	a := tape.SiteFile{Name: "/etc/prelet/a.hcl", Text: "a"}
	d := tape.SiteFile{Name: "/etc/prelet/d.preletdata.yaml", Text: "d"}
	b := tape.SiteFile{Name: "/usr/lib/prelet/site/b c.hcl", Text: "b"}
	for name, test := range map[string]struct {
		files []tape.SiteFile
		want  []string
	}{
		"as listed": {[]tape.SiteFile{a, b, d}, nil},
		"missing":   {[]tape.SiteFile{a, d}, []string{"b c.hcl is listed, and is missing or hidden"}},
		"changed":   {[]tape.SiteFile{{Name: "x/a.hcl", Text: "b"}, b, d}, []string{"x/a.hcl was changed"}},
		"added":     {[]tape.SiteFile{a, b, d, {Name: "c.hcl", Text: "a"}}, []string{"c.hcl is not listed"}},
		"data":      {[]tape.SiteFile{a, b, {Name: d.Name, Text: "e"}}, []string{d.Name + " was changed"}},
		"twice":     {[]tape.SiteFile{a, b, d, {Name: "x/a.hcl", Text: "a"}}, []string{"x/a.hcl is not listed"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := list.Compare(test.files); !slices.Equal(got, test.want) {
				t.Errorf("Compare: got %q, want %q", got, test.want)
			}
		})
	}
}

func TestBadSignedLists(t *testing.T) {
	file := listLine("a.hcl", "a")
	counter := "# counter: 3\n"
	for text, want := range map[string]string{
		counter + "# name: a\n# name: b\n":                "line 3: write one name",
		counter + "# name: \n":                            "line 2: invalid name \"\"",
		counter + "# name: -a\n":                          "line 2: invalid name \"-a\"",
		counter + "# name: a\n# ring: a/b\n":              "line 3: invalid ring \"a/b\"",
		counter + "# name: a\n# repository: host\n":       "line 3: invalid repository \"host\": write HOST/PATH",
		counter + "# name: a\n# repository: host/a:tag\n": "line 3: invalid repository",
		counter + "# name: a\n# not-below: 0\n":           "line 3: write one not-below",
		counter + "# name: a\n# not-below: 4\n":           "not-below is 4, above the counter 3",
		counter + "# name: a\n# expires: tomorrow\n":      "line 3: \"tomorrow\" is not a time as 2027-01-31T12:00:00Z",
		counter + "# ring: a\n":                           "there is a line \"# ring:\", and none \"# name:\"",
		counter + "# not-below: 1\n":                      "there is a line \"# not-below:\"",
		counter + "# expires: 2027-01-31T12:00:00Z\n":     "there is a line \"# expires:\"",
		counter + "# mask: a.hcl\n":                       "there is a line \"# mask:\"",
		"# name: a\n":                                     "# counter: 1",
		"":                                                "# counter: 1",
		file:                                              "# counter: 1",
		"# counter: 0\n":                                  "line 1: write one counter",
		"# counter: 18446744073709551616\n":               "line 1: write one counter",
		"# counter: 1\n# counter: 2\n":                    "line 2: write one counter",
		"# counter: 1\nSHA256 (a.hcl) = 00":               "line 2: it is not of the form",
		"# counter: 1\n" + file + file:                    "line 3: a.hcl is listed twice",
		"# counter: 1\n" + file[:40] + "\n":               "line 2: it is not of the form",
		"# counter: 1\n\\" + file:                         "line 2: it is not of the form",
		"# counter: 1\r\n" + file:                         "carriage return",
		"\ufeff# counter: 1\n" + file:                     "byte order mark",
		"# counter: 1\n" + file + "\n\x00\n":              "line 4: it is not of the form",
	} {
		list, err := ParseList([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseList(%q): got %+v, %v; want an error with %q", text, list, err, want)
		}
	}
}

// TestFormat checks the text that is signed, and that it is read as what was written.
func TestFormat(t *testing.T) {
	list := SignedList{
		Name: "gpu", Ring: "canary", Repository: "registry.example.com:5000/sites/gpu", Counter: 7, NotBelow: 5,
		Expires: time.Date(2027, 1, 31, 12, 0, 0, 0, time.FixedZone("", 3600)),
	}
	list.Add([]tape.SiteFile{{Name: "x/b.hcl", Text: "b"}, {Name: "a c.hcl", Text: "a"}}, "z.hcl", "m.hcl")
	want := "# name: gpu\n# ring: canary\n# repository: registry.example.com:5000/sites/gpu\n# counter: 7\n" +
		"# not-below: 5\n# expires: 2027-01-31T11:00:00Z\n# mask: m.hcl\n# mask: z.hcl\n" +
		listLine("a c.hcl", "a") + listLine("b.hcl", "b")

	text, err := list.Format()
	if string(text) != want || err != nil {
		t.Fatalf("Format: got\n%s, %v; want\n%s", text, err, want)
	}
	got, err := ParseList(text)
	if err != nil || got.String() != "gpu, counter 7" || got.Ring != list.Ring || got.Repository != list.Repository ||
		got.NotBelow != list.NotBelow || !got.Expires.Equal(list.Expires) || len(got.hashes) != 2 || len(got.masks) != 2 {
		t.Errorf("ParseList: got %+v, %v; want %+v", got, err, list)
	}

	for _, name := range []string{"a\\b.hcl", "a\nb.hcl", "a\rb.hcl"} {
		bad := SignedList{Name: "a", Counter: 1}
		bad.Add([]tape.SiteFile{{Name: name}})
		if text, err := bad.Format(); err == nil || !strings.Contains(err.Error(), "rename it") {
			t.Errorf("Format with the file %q: got %q, %v; want an error", name, text, err)
		}
	}
}

func TestCheckWanted(t *testing.T) {
	at := time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)
	list := SignedList{Name: "gpu", Ring: "canary", Repository: "r.example.com/gpu", Counter: 7, Expires: at}
	good := Wanted{Name: "gpu", Ring: "canary", Repositories: []string{"r.example.com/gpu", "x/y"}, NotBelow: 7, Now: at}
	for name, test := range map[string]struct {
		change func(*SignedList, *Wanted)
		want   string
	}{
		"good":                  {func(*SignedList, *Wanted) {}, ""},
		"any name":              {func(_ *SignedList, w *Wanted) { w.Name = "" }, ""},
		"another name":          {func(_ *SignedList, w *Wanted) { w.Name = "cpu" }, `signed as "gpu", and this node wants "cpu"`},
		"of all layers":         {func(l *SignedList, _ *Wanted) { l.Name = "" }, `no line "# name:"`},
		"a ring, none wanted":   {func(_ *SignedList, w *Wanted) { w.Ring = "" }, `the ring "canary", and this node has no ring`},
		"no ring, one wanted":   {func(l *SignedList, _ *Wanted) { l.Ring = "" }, `for no ring, and this node is of the ring "canary"; sign the site again: prelet site sign DIR --key FILE --ring canary`},
		"another repository":    {func(l *SignedList, _ *Wanted) { l.Repository = "x/z" }, "for the repository x/z, and this node asks r.example.com/gpu and x/y"},
		"from folders only":     {func(_ *SignedList, w *Wanted) { w.Repositories, w.IsFolder = nil, true }, ""},
		"of no repository":      {func(l *SignedList, _ *Wanted) { l.Repository = "" }, "signed for a folder, and not for a registry; sign the site again: prelet site sign DIR --key FILE --repository r.example.com/gpu or x/y"},
		"no repository, folder": {func(l *SignedList, w *Wanted) { l.Repository, w.IsFolder = "", true }, ""},
		"another one, folder":   {func(l *SignedList, w *Wanted) { l.Repository, w.IsFolder = "x/z", true }, "for the repository x/z"},
		"below":                 {func(_ *SignedList, w *Wanted) { w.NotBelow = 8 }, "with not-below 8"},
		"expired":               {func(_ *SignedList, w *Wanted) { w.Now = at.Add(time.Second) }, "expired at 2027-01-31T12:00:00Z"},
		"without a clock":       {func(_ *SignedList, w *Wanted) { w.Now = time.Time{} }, ""},
		"without an expiration": {func(l *SignedList, w *Wanted) { l.Expires, w.Now = time.Time{}, at.AddDate(9, 0, 0) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l, w := list, good
			test.change(&l, &w)
			err := l.CheckWanted(w)
			if got := fmt.Sprint(err); (err != nil) != (test.want != "") || !strings.Contains(got, test.want) {
				t.Errorf("CheckWanted: got %v, want %q", got, test.want)
			}
		})
	}
}

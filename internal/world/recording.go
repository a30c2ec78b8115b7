package world

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/fault"
)

// Format is the number of the recording's format. Older formats stay readable.
const Format = 1

// maxRecording bounds what Decode reads, gzip undone.
const maxRecording = 64 << 20

// Header says of whom a recording is and with what site, so that it replays alone.
type Header struct {
	Format  int        `json:"format"`
	Prelet  string     `json:"prelet"`
	Time    string     `json:"time"`
	Boot    string     `json:"boot,omitempty"`
	Machine string     `json:"machine,omitempty"` // the machine id, hashed
	Site    []SiteFile `json:"site"`
}

// SiteFile is one file of the site as it was read, vars files included.
type SiteFile struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Recording is a tape that has ended: the same site on it gives the same plan on any machine.
type Recording struct {
	Header  Header
	Entries []Entry
	Compact bool // Encode breaks no lines: for programs
}

type document struct {
	Header
	Answers []documentEntry `json:"answers"`
}

type documentEntry struct {
	Kind   Kind            `json:"kind"`
	Args   json.RawMessage `json:"args"`
	Answer documentAnswer  `json:"answer"`
}

// documentAnswer is an answer as it is written: a value, or the name of why there is none.
type documentAnswer struct {
	Value    json.RawMessage `json:"value,omitempty"`
	Fail     string          `json:"fail,omitempty"`
	Detail   string          `json:"detail,omitempty"` // why it failed, in words
	Hint     string          `json:"hint,omitempty"`   // what to do next
	Stale    int             `json:"stale,omitempty"`
	Because  string          `json:"because,omitempty"`
	Withheld []string        `json:"withheld,omitempty"`
}

func encodeAnswer(a Answer) documentAnswer {
	d := documentAnswer{Value: a.Value, Fail: a.Name(), Stale: a.Stale, Because: a.Because, Withheld: a.Withheld}
	if a.Fault != nil {
		d.Detail, d.Hint = a.Why(), a.Fault.Next
	}

	return d
}

// decode gives an answer to a question of a kind. An unknown name is an error.
func (d documentAnswer) decode(kind Kind) (Answer, error) {
	a := Answer{Value: d.Value, Stale: d.Stale, Because: d.Because, Withheld: d.Withheld}
	if d.Fail == "" {
		return a, nil
	}

	code, ok := codeOf(d.Fail, kind)
	if !ok {
		return a, fmt.Errorf("the failure %q is not known", d.Fail)
	}

	a.Fault = &fault.Fault{Code: code, Why: d.Detail, Next: d.Hint}

	return a, nil
}

// Encode writes one JSON document, its answers sorted as Entries are.
func (r *Recording) Encode(w io.Writer) error {
	d := document{Header: r.Header, Answers: []documentEntry{}}
	d.Format = Format
	for _, e := range r.Entries {
		d.Answers = append(d.Answers, documentEntry{e.Kind, json.RawMessage(e.Args), encodeAnswer(e.Answer)})
	}

	enc := json.NewEncoder(w)
	if !r.Compact {
		enc.SetEscapeHTML(false)
		enc.SetIndent("", " ")
	}

	return enc.Encode(d)
}

// Only returns the part of a recording that has the answers of one kind.
func (r *Recording) Only(kind Kind) *Recording {
	out := &Recording{Header: r.Header, Compact: r.Compact}
	out.Header.Site = nil
	for _, e := range r.Entries {
		if e.Kind == kind {
			out.Entries = append(out.Entries, e)
		}
	}

	return out
}

// ErrNewer is a recording that a newer prelet wrote.
var ErrNewer = errors.New("the recording is of a newer prelet; use that one, or record again")

// Decode reads a recording, plain or gzipped.
func Decode(r io.Reader) (*Recording, error) {
	b := bufio.NewReader(r)
	if magic, err := b.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("recording: %w", err)
		}
		b = bufio.NewReader(z)
	}
	text, err := io.ReadAll(io.LimitReader(b, maxRecording+1))
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	if len(text) > maxRecording {
		return nil, fmt.Errorf("recording: more than %d MiB", maxRecording>>20)
	}
	d, err := parse(text)
	if err != nil {
		return nil, err
	}
	out := &Recording{Header: d.Header}
	seen := map[Question]bool{}
	for _, e := range d.Answers {
		answer, err := e.check()
		if err != nil {
			return nil, fmt.Errorf("recording: question of kind %q: %w", e.Kind, err)
		}
		var args bytes.Buffer
		if err := json.Compact(&args, e.Args); err != nil {
			return nil, fmt.Errorf("recording: question of kind %q: %w", e.Kind, err)
		}
		q := Question{e.Kind, args.String()}
		if seen[q] {
			return nil, fmt.Errorf("recording: the question %s is given twice", q)
		}
		seen[q] = true
		if len(e.Answer.Value) > 0 {
			var v bytes.Buffer
			if err := json.Compact(&v, e.Answer.Value); err != nil {
				return nil, fmt.Errorf("recording: answer to %s: %w", q, err)
			}
			answer.Value = v.Bytes()
		}
		out.Entries = append(out.Entries, Entry{q, answer})
	}
	return out, nil
}

// parse reads the document. The format is looked at first: what a newer one has more is no mistake.
func parse(text []byte) (d document, err error) {
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return d, fmt.Errorf("this is no recording: %w", err)
	}
	switch {
	case head.Format <= 0:
		return d, errors.New("this is no recording: it has no format")
	case head.Format > Format:
		return d, ErrNewer
	}

	tokens := json.NewDecoder(bytes.NewReader(text))
	tokens.UseNumber()
	if err := checkKeysUnique(tokens); err != nil {
		return d, fmt.Errorf("recording: %w", err)
	}

	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return d, fmt.Errorf("recording: %w", err)
	}
	return d, nil
}

// checkKeysUnique refuses a key that is in one object twice: readers differ about which one counts. dec is at the start of
// a value of valid JSON.
func checkKeysUnique(dec *json.Decoder) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}

	open, isDelim := token.(json.Delim)
	if !isDelim {
		return nil
	}

	seen := map[string]bool{}
	for dec.More() {
		if open == '{' {
			key, err := dec.Token()
			if err != nil {
				return err
			}

			name := fmt.Sprint(key)
			if seen[name] {
				return fmt.Errorf("the key %q is given twice in one object", name)
			}
			seen[name] = true
		}

		if err := checkKeysUnique(dec); err != nil {
			return err
		}
	}

	_, err = dec.Token()
	return err
}

// check gives the answer of an entry, and refuses one that means nothing, or two things.
func (e documentEntry) check() (Answer, error) {
	a, err := e.Answer.decode(e.Kind)
	hasValue := len(a.Value) > 0
	switch {
	case err != nil:
		return a, err
	case e.Kind == "":
		return a, errors.New("it has no kind")
	case len(e.Args) == 0:
		return a, errors.New("it has no arguments")
	case !hasValue && a.Fault == nil:
		return a, errors.New("its answer has neither a value nor a failure")
	case hasValue && a.Fault != nil:
		return a, errors.New("its answer has both a value and a failure")
	}

	return a, nil
}

// Source answers from the recording. What it was never asked is Unread.
func (r *Recording) Source() Source {
	m := make(map[Question]Answer, len(r.Entries))
	for _, e := range r.Entries {
		m[e.Question] = e.Answer
	}
	return SourceFunc(func(_ context.Context, q Question) Answer {
		if a, ok := m[q]; ok {
			return a
		}
		if a, ok := r.findAlike(q); ok {
			return a
		}
		return Failure(fault.Unread, "this recording was never asked "+q.String(), "")
	})
}

// Find is the recorded answer to a question, or to one that is like it (see findAlike).
func (r *Recording) Find(q Question) (Answer, bool) {
	for _, e := range r.Entries {
		if e.Question == q {
			return e.Answer, true
		}
	}
	return r.findAlike(q)
}

// findAlike returns the recorded answer to a question that differs only in what the answer does not depend on: how long
// it waits, whether an object may be missing, or the text that a file with secrets is compared with. A file that is as
// it was to be then differs from any other text.
func (r *Recording) findAlike(q Question) (Answer, bool) {
	for _, e := range r.Entries {
		if e.Kind != q.Kind || e.Question.alike() != q.alike() {
			continue
		}
		var was TargetAns
		if q.Kind != KindTarget {
			return e.Answer, true
		}
		if e.Answer.Fault != nil || json.Unmarshal(e.Answer.Value, &was) != nil || was.Exists && !was.Same && was.Uncompared == "" {
			return Answer{}, false
		}
		was.Same = false
		return Target.Answer(was), true
	}
	return Answer{}, false
}

// alike returns the arguments of a question without what its answer does not depend on.
func (q Question) alike() string {
	var args map[string]any
	if json.Unmarshal([]byte(q.Args), &args) != nil {
		return q.Args
	}
	for _, name := range []string{"wait_ms", "retry_ms", "optional"} {
		delete(args, name)
	}
	if args["secret"] == true {
		delete(args, "want")
	}
	b, _ := json.Marshal(args)
	return string(b)
}

// Withhold leaves serial numbers, asset tags, WWNs, uuids, machine ids, MAC addresses and GUIDs out of the facts, and says so in the
// answer: those places replay as unread. An IPv6 address that is made of a MAC address or a GUID goes with it. Of what detectors
// said, the attributes, facts and labels that are called so, and what is written like a MAC address. Names that are made of one
// (enx02005e005301) become others (enx-1), but for those that the site says.
func (r *Recording) Withhold() error {
	x, err := newAnonymous(r)
	if err != nil {
		return err
	}
	for i, e := range r.Entries {
		if !e.tells() {
			continue
		}
		if e.Kind == KindDetector {
			if err := r.Entries[i].Answer.withholdSaid(x); err != nil {
				return err
			}
			continue
		}
		var v map[string]any
		if err := json.Unmarshal(e.Answer.Value, &v); err != nil {
			return fmt.Errorf("recording: facts: %w", err)
		}
		rewrite(v, x.all, x.names)
		out := append([]string{}, x.pointers(e.Answer.Withheld)...)
		hide := func(m map[string]any, at, key string) {
			if m[key] != nil {
				m[key] = nil
				out = append(out, at+"/"+key)
			}
		}
		hide(v, "", "machine_id")
		if guids, ok := v["guids"].(map[string]any); ok && len(guids) > 0 {
			hide(v, "", "guids")
		}
		for name, keys := range map[string][]string{"product": {"serial", "uuid"}, "chassis": {"serial", "asset_tag"}, "baseboard": {"serial", "asset_tag"}} {
			if part, ok := v[name].(map[string]any); ok {
				for _, key := range keys {
					hide(part, "/"+name, key)
				}
			}
		}
		disks, _ := v["block_devices"].([]any)
		for i, disk := range disks {
			if m, ok := disk.(map[string]any); ok {
				hide(m, "/block_devices/"+strconv.Itoa(i), "serial")
				hide(m, "/block_devices/"+strconv.Itoa(i), "wwn")
			}
		}
		if all, ok := v["interfaces"].(map[string]any); ok {
			for name, one := range all {
				if m, ok := one.(map[string]any); ok {
					at := "/interfaces/" + EscapePointer(name)
					list, _ := m["ipv6"].([]any)
					for i, ip := range list {
						if text, ok := ip.(string); ok && tellsMAC(text) {
							list[i] = ""
							out = append(out, at+"/ipv6/"+strconv.Itoa(i))
						}
					}
					hide(m, at, "mac")
				}
			}
		}
		rewrite(v, x.all, x.all)
		slices.Sort(out)
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		r.Entries[i].Answer.Value, r.Entries[i].Answer.Withheld = b, out
	}
	return nil
}

// tellsMAC says whether an IPv6 address ends in an interface identifier that is made of an identity of the hardware: a MAC
// address with ff:fe in its middle, or the GUID of an InfiniBand port, which has its vendor's number in front and no such
// mark. So the latter is known by the link-local prefix and the bit that says "unique in the world".
// Source: RFC 4291, appendix A; RFC 4391, section 8.
func tellsMAC(text string) bool {
	ip, err := netip.ParseAddr(text)
	if err != nil || !ip.Is6() {
		return false
	}
	b := ip.As16()
	return b[11] == 0xff && b[12] == 0xfe || ip.IsLinkLocalUnicast() && b[8]&2 != 0
}

// EscapePointer writes a key as a part of a JSON pointer (RFC 6901).
func EscapePointer(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

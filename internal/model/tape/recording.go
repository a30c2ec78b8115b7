package tape

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
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/prelet/prelet/internal/fault"
)

// Format is the number of the recording's format. Older formats stay readable.
const Format = 1

// Header is the machine and the site of a recording, so that it replays without other files.
type Header struct {
	Format  int        `json:"format"`
	Prelet  string     `json:"prelet"`
	Time    string     `json:"time"`
	Boot    string     `json:"boot,omitempty"`
	Machine string     `json:"machine,omitempty"` // the machine id, hashed
	Site    []SiteFile `json:"site"`
	Pulled  *Pulled    `json:"pulled,omitempty"` // where the pulled layer of the site came from; nil: there is none
}

// Pulled is the pulled layer of a site.
type Pulled struct {
	Digest string `json:"digest"` // of the artifact
	Tag    string `json:"tag,omitempty"`
	Ring   string `json:"ring,omitempty"`
}

// String returns it for people.
func (p Pulled) String() string {
	text := p.Digest
	if p.Tag != "" {
		text += ", tag " + p.Tag
	}
	if p.Ring != "" {
		text += ", ring " + p.Ring
	}

	return text
}

// SiteFile is one file of the site as it was read, vars files included.
type SiteFile struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Recording is a finished tape: with the same site it gives the same plan on any machine.
type Recording struct {
	Header  Header
	Entries []Entry
	Compact bool // Encode writes one line, for programs
}

// Document is the form of a recording.
type Document struct {
	Header
	Answers []documentEntry `json:"answers"`
}

type documentEntry struct {
	Kind   Kind            `json:"kind"`
	Args   json.RawMessage `json:"args"`
	Answer documentAnswer  `json:"answer"`
}

// documentAnswer is an answer in the file: a value, or the name of the reason why there is none.
type documentAnswer struct {
	Value    json.RawMessage `json:"value,omitempty"`
	Fail     string          `json:"fail,omitempty"`
	Detail   string          `json:"detail,omitempty"` // the reason in words
	Hint     string          `json:"hint,omitempty"`   // what to do next
	Stale    int             `json:"stale,omitempty"`
	Because  string          `json:"because,omitempty"`
	Withheld []string        `json:"withheld,omitempty"`
}

func encodeAnswer(a Answer) documentAnswer {
	d := documentAnswer{
		Value:    a.Value,
		Fail:     a.Name(),
		Stale:    a.Stale,
		Because:  a.Because,
		Withheld: a.Withheld,
	}
	if a.Fault != nil {
		d.Detail, d.Hint = a.Why(), a.Fault.Next
	}

	return d
}

// decode decodes an answer to a question of a kind. An unknown name is an error.
func (d documentAnswer) decode(kind Kind) (Answer, error) {
	a := Answer{
		Value:    d.Value,
		Stale:    d.Stale,
		Because:  d.Because,
		Withheld: d.Withheld,
	}
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
	d := Document{Header: r.Header, Answers: []documentEntry{}}
	d.Format = Format
	for _, e := range r.Entries {
		args := json.RawMessage(e.Args)
		d.Answers = append(d.Answers, documentEntry{e.Kind, args, encodeAnswer(e.Answer)})
	}

	enc := json.NewEncoder(w)
	if !r.Compact {
		enc.SetEscapeHTML(false)
		enc.SetIndent("", " ")
	}

	return enc.Encode(d)
}

// ErrNoFormat is the error for a document without a format of recordings.
var ErrNoFormat = errors.New("not a recording: it has no format; the facts of a machine are given with --hardware")

// ErrNewer is the error for a recording of a newer prelet.
var ErrNewer = errors.New("the recording is of a newer prelet; use that one, or record again")

// Decode reads a recording, plain or gzipped.
func Decode(r io.Reader) (*Recording, error) {
	text, err := Decompress(r)
	if err != nil {
		return nil, err
	}

	return DecodeText(text)
}

// Decompress reads the text of a recording, plain or gzipped.
func Decompress(r io.Reader) ([]byte, error) {
	b := bufio.NewReader(r)
	magic, err := b.Peek(2)
	if err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("recording: %w", err)
		}
		b = bufio.NewReader(z)
	}
	text, err := io.ReadAll(io.LimitReader(b, MaxRecording+1))
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.New("not a recording: it ends early; copy it again, or record again")
	}
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	if len(text) > MaxRecording {
		return nil, fmt.Errorf("recording: it is larger than %d MiB", MaxRecording>>20)
	}

	return text, nil
}

func DecodeText(text []byte) (*Recording, error) {
	if err := RecordingBounds.Check(text); err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	var compact bytes.Buffer // the text is indented, and read several times
	if json.Compact(&compact, text) != nil {
		return nil, checkFormat(text)
	}
	text = compact.Bytes()
	d, err := parse(text)
	if err != nil {
		return nil, err
	}
	out := &Recording{Header: d.Header}
	seen := map[Question]bool{}
	canonical := map[Kind]func(Question) Question{}
	for _, t := range topics() {
		canonical[t.kind()] = t.canonical
	}
	for _, e := range d.Answers {
		answer, err := e.check()
		if err != nil {
			return nil, fmt.Errorf("recording: question of kind %q: %w", e.Kind, err)
		}
		q := Question{e.Kind, string(e.Args)}
		if rewrite := canonical[e.Kind]; rewrite != nil {
			q = rewrite(q)
		}
		if seen[q] {
			return nil, fmt.Errorf("recording: the question %s is given twice", q)
		}
		seen[q] = true
		out.Entries = append(out.Entries, Entry{q, answer})
	}
	return out, nil
}

// parse parses a document that is valid JSON.
func parse(text []byte) (d Document, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	failed := dec.Decode(&d)
	if failed != nil || d.Format != Format {
		// New fields of a newer format are not errors.
		if err := checkFormat(text); err != nil {
			return d, err
		}
	}

	if err := checkKeysUnique(text); err != nil {
		return d, fmt.Errorf("recording: %w", err)
	}
	if failed != nil {
		return d, fmt.Errorf("recording: %w", ExplainJSON(failed))
	}

	return d, nil
}

// checkFormat refuses a text that is not JSON, and the formats that this prelet does not know.
func checkFormat(text []byte) error {
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		if len(text) > 0 && strings.Contains(err.Error(), "unexpected end") {
			return fmt.Errorf("not a recording: it ends early, after %d bytes; copy it again, or record again",
				len(text))
		}

		return fmt.Errorf("not a recording: %w", ExplainJSON(err))
	}
	switch {
	case head.Format <= 0:
		return ErrNoFormat
	case head.Format > Format:
		return ErrNewer
	}

	return nil
}

// ExplainJSON returns an error of package json without the types of Go in it.
func ExplainJSON(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		if text, isOfPackage := strings.CutPrefix(err.Error(), "json: "); isOfPackage {
			return errors.New(text)
		}
		return err
	}
	if wrong.Field != "" { // a path, in which embedded structs have the names of their types
		field := wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:]
		return fmt.Errorf("its field %s cannot be a JSON %s", field, wrong.Value)
	}
	if wrong.Type.Kind() == reflect.Struct {
		return fmt.Errorf("it is a JSON %s, and an object is needed", wrong.Value)
	}

	return fmt.Errorf("a JSON %s is in a place for something else", wrong.Value)
}

// checkKeysUnique refuses duplicate keys in an object of valid JSON, because readers differ about which one counts.
func checkKeysUnique(text []byte) error {
	var open []map[string]bool // of the objects around this place; nil for an array
	isKey := false
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{':
			open = append(open, map[string]bool{})
			isKey = true
		case '[':
			open = append(open, nil)
			isKey = false
		case '}', ']':
			open = open[:len(open)-1]
			isKey = false
		case ',':
			isKey = len(open) > 0 && open[len(open)-1] != nil
		case '"':
			end := EndOfString(text, i)
			if isKey {
				name, err := decodeKey(text[i:end])
				if err != nil {
					return err
				}
				seen := open[len(open)-1]
				if seen[name] {
					return fmt.Errorf("the key %q is given twice in one object", name)
				}
				seen[name] = true
				isKey = false
			}
			i = end - 1
		}
	}

	return nil
}

// EndOfString returns the offset behind the JSON string that begins at an offset, or the end of the text.
func EndOfString(text []byte, start int) int {
	for i := start + 1; ; i++ {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return len(text)
		}
		i += n
		escapes := i - len(bytes.TrimRight(text[start+1:i], "\\")) - (start + 1)
		if escapes%2 == 0 { // else the last one is of this quote
			return i + 1
		}
	}
}

// decodeKey returns the text of a key, as a decoder reads it.
func decodeKey(quoted []byte) (string, error) {
	inner := quoted[1 : len(quoted)-1]
	isPlain := !bytes.ContainsRune(inner, '\\') && utf8.Valid(inner)
	if isPlain {
		return string(inner), nil
	}

	var name string
	err := json.Unmarshal(quoted, &name)
	return name, err
}

// check returns the answer of an entry, and refuses an entry without a meaning or with two.
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

// Source returns a source of the recording's answers. The answer to any other question is Unread.
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

// Find returns the recorded answer to a question, or to a similar one (see findAlike).
func (r *Recording) Find(q Question) (Answer, bool) {
	for _, e := range r.Entries {
		if e.Question == q {
			return e.Answer, true
		}
	}
	return r.findAlike(q)
}

// findAlike returns the recorded answer to a question that differs only in parts that the answer does not depend on:
// the waiting time, whether an object may be missing, or the text that a file with secrets is compared with: another
// text differs.
func (r *Recording) findAlike(q Question) (Answer, bool) {
	for _, e := range r.Entries {
		if e.Kind != q.Kind || e.Question.alike() != q.alike() {
			continue
		}
		var was TargetAns
		if q.Kind != KindTarget || e.Answer.Fault != nil || json.Unmarshal(e.Answer.Value, &was) != nil {
			return e.Answer, true
		}
		was.Same = false
		return Target.Answer(was), true
	}
	return Answer{}, false
}

// alike returns the arguments of a question without the parts that its answer does not depend on.
func (q Question) alike() string {
	var args map[string]any
	if json.Unmarshal([]byte(q.Args), &args) != nil {
		return q.Args
	}
	for _, name := range []string{"wait_ms", "wait_for", "retry_ms", "optional"} {
		delete(args, name)
	}
	if args["secret"] == true {
		delete(args, "want")
	}
	b, _ := json.Marshal(args)
	return string(b)
}

// Withhold removes serial numbers, asset tags, WWNs, uuids, machine ids, MAC addresses and GUIDs from the facts, and
// IPv6 addresses that are made of these. The answer lists the places, which are unknown in a replay. In answers of
// detectors it removes attributes, facts and labels with such names, and texts like a MAC address. Interface names that
// are made of one (enx02005e005301) become others (enx-1), unless they are in the site.
func (r *Recording) Withhold() error {
	x, err := newAnonymous(r)
	if err != nil {
		return err
	}

	for i, e := range r.Entries {
		if !e.isHardware() {
			continue
		}
		if err := r.Entries[i].Answer.withhold(e.Kind, x); err != nil {
			return err
		}
	}

	return nil
}

// hideAddresses removes the IPv6 addresses of an interface that are made of a hardware address, and returns their
// places.
func hideAddresses(iface map[string]any, at string) (places []string) {
	addresses, _ := iface["ipv6"].([]any)
	for i, address := range addresses {
		if text, ok := address.(string); ok && hasHardwareID(text) {
			addresses[i] = ""
			places = append(places, at+"/ipv6/"+strconv.Itoa(i))
		}
	}
	both, _ := iface["addresses"].([]any)
	for i, one := range both {
		places = append(places, hideAddress(one, at+"/addresses/"+strconv.Itoa(i), "address")...)
	}

	return places
}

// hideAddress hides those of the named addresses of an object that are made of an identity of the hardware, and
// returns their places.
func hideAddress(object any, at string, names ...string) (places []string) {
	fields, _ := object.(map[string]any)
	for _, name := range names {
		if text, ok := fields[name].(string); ok && hasHardwareID(text) {
			fields[name] = ""
			places = append(places, at+"/"+name)
		}
	}

	return places
}

// hasHardwareID reports whether an IPv6 address ends in an interface identifier that is made of an identity of the
// hardware: a MAC address with ff:fe in its middle, or the GUID of an InfiniBand port, which begins with its vendor's
// number and is recognised by the link-local prefix and the bit for "unique in the world".
// Source: RFC 4291, appendix A; RFC 4391, section 8.
func hasHardwareID(text string) bool {
	ip, err := netip.ParseAddr(text)
	if err != nil || !ip.Is6() {
		return false
	}
	b := ip.As16()
	isFromMAC := b[11] == 0xff && b[12] == 0xfe
	isUniversal := b[8]&2 != 0

	return isFromMAC || ip.IsLinkLocalUnicast() && isUniversal
}

var (
	escapeKey   = strings.NewReplacer("~", "~0", "/", "~1")
	unescapeKey = strings.NewReplacer("~1", "/", "~0", "~")
)

// Pointer joins keys to a JSON pointer (RFC 6901).
func Pointer(keys ...string) string {
	pointer := ""
	for _, key := range keys {
		pointer += "/" + escapeKey.Replace(key)
	}

	return pointer
}

// SplitPointer returns the keys of a JSON pointer; none for the whole document.
func SplitPointer(pointer string) []string {
	keys := strings.Split(pointer, "/")[1:]
	for i, key := range keys {
		keys[i] = unescapeKey.Replace(key)
	}

	return keys
}

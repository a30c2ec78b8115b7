package kube

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

// agreementFew is how many inputs of each kind are tried where nothing else is asked for: 176 in all.
const agreementFew = 11

// inputKind makes inputs of one kind; i counts them.
type inputKind struct {
	name string
	make func(g *inputs, i int) inputCase
}

func inputKinds() []inputKind {
	return []inputKind{
		{"field", (*inputs).oneField},
		{"combination", (*inputs).combination},
		{"raw", (*inputs).raw},
		{"gate", (*inputs).gate},
		{"flag", (*inputs).flag},
		{"label", (*inputs).label},
		{"taint", (*inputs).taint},
		{"duration", (*inputs).duration},
		{"integer", (*inputs).integer},
		{"manager", (*inputs).manager},
		{"valid", (*inputs).valid},
		{"threshold", (*inputs).threshold},
		{"quantity", (*inputs).reserved},
		{"list", (*inputs).list},
		{"drop-in", (*inputs).dropIn},
		{"unit", (*inputs).unit},
	}
}

// chosenKinds are the kinds of inputs of a run: all, or one.
func chosenKinds() []inputKind {
	only := os.Getenv(agreementKind)

	return slices.DeleteFunc(inputKinds(), func(k inputKind) bool { return only != "" && k.name != only })
}

// inputData is testdata/agreement.yaml, which says what each part is.
type inputData struct {
	Values         map[string][]any    `json:"values"`
	Words          map[string][]string `json:"words"`
	Bounds         []string            `json:"bounds"`
	OddDurations   []string            `json:"odd_durations"`
	DurationUnits  []string            `json:"duration_units"`
	OddAmounts     []string            `json:"odd_amounts"`
	AmountSuffixes []string            `json:"amount_suffixes"`
	OddShares      []string            `json:"odd_shares"`
	OddNumbers     []string            `json:"odd_numbers"`
	DurationFields []any               `json:"duration_fields"`
	IntegerFields  []any               `json:"integer_fields"`
	Thresholds     struct {
		Signals, Fields []string
		KubeReserved    map[string]any `json:"kubeReserved"`
	} `json:"thresholds"`
	Reserved     []string            `json:"reserved"`
	NumberFlags  []string            `json:"number_flags"`
	ListFlags    map[string][]string `json:"list_flags"`
	OddElements  []string            `json:"odd_elements"`
	OddQuotes    []string            `json:"odd_quotes"`
	NotTried     []string            `json:"not_tried"`
	Label, Taint struct {
		GoodKeys   []string `json:"good_keys"`
		Keys       []string `json:"keys"`
		GoodValues []string `json:"good_values"`
		Values     []string `json:"values"`
	}
	Effects        []string         `json:"effects"`
	Manager        map[string]any   `json:"manager"`
	Combinations   []map[string]any `json:"combinations"`
	Valid          map[string]any   `json:"valid"`
	Files          []string         `json:"files"`
	DropInNames    []string         `json:"drop_in_names"`
	OddDropInNames []string         `json:"odd_drop_in_names"`
	OddDropIns     []string         `json:"odd_drop_ins"`
	UnitCommands   []string         `json:"unit_commands"`
	OddWords       []string         `json:"odd_words"`
	BadWords       []string         `json:"bad_words"`
	BadFields      []map[string]any `json:"bad_fields"`
	Excuses        []excuse         `json:"excuses"`
}

// excuse is one disagreement in which prelet is right, or in which one of the two does not check the input.
type excuse struct {
	Starts     bool // the kubelet accepts it, and prelet does not
	Words, Why string
}

func readInputData(t *testing.T) (d inputData) {
	t.Helper()
	text, err := os.ReadFile("testdata/agreement.yaml")
	must(t, err)
	useNumber := func(d *json.Decoder) *json.Decoder {
		d.UseNumber()
		return d
	}
	must(t, yaml.UnmarshalStrict(text, &d, useNumber))

	return d
}

// explains says why a disagreement is right, or is of how the kubelet is asked here; "" for one that counts.
func (d inputData) explains(starts bool, said string) string {
	for _, e := range d.Excuses {
		if starts == e.Starts && strings.Contains(said, e.Words) {
			return e.Why
		}
	}

	return ""
}

// inputs makes random ones.
type inputs struct {
	*rand.Rand
	inputData
	known  tables
	fields []knownField
	gates  []string
	flags  []knownFlag
}

// knownFlag is a flag that some kubelet has had, and what it takes.
type knownFlag struct {
	name  string
	isNow bool // in the newest version
	takes string
	field string // of the configuration, that it sets
}

// knownField is a field of KubeletConfiguration that holds no other fields, with its Go type.
type knownField struct {
	path []string
	of   reflect.Type
}

func newInputs(t *testing.T, r *rand.Rand) *inputs {
	t.Helper()
	g := &inputs{Rand: r, inputData: readInputData(t), known: readTables(t)}
	g.add(nil, reflect.TypeFor[v1beta1.KubeletConfiguration]())

	// The names of flags and gates are of the tables. What is wrong with them is not: a kubelet is asked.
	g.gates = slices.Sorted(maps.Keys(g.known["gate"]))
	for _, name := range slices.Sorted(maps.Keys(g.known["flag"])) {
		states := g.known["flag"][name]
		words := strings.Fields(states[len(states)-1].text)
		f := knownFlag{name: name, isNow: words[0] != "-", takes: words[0]}
		for _, w := range words {
			if strings.HasPrefix(w, ">") {
				f.field = w[1:]
			}
		}
		g.flags = append(g.flags, f)
	}

	return g
}

func (g *inputs) add(path []string, of reflect.Type) {
	for i := range of.NumField() {
		f := of.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" && strings.Contains(options, "inline") || f.Anonymous && name == "" {
			if f.Type != reflect.TypeFor[metav1.TypeMeta]() {
				g.add(path, f.Type)
			}

			continue
		}

		in := f.Type
		if in.Kind() == reflect.Pointer {
			in = in.Elem()
		}
		here := append(slices.Clone(path), name)
		if in.Kind() == reflect.Struct && !slices.Contains(wholeTypes(), in) {
			g.add(here, in)
		} else {
			g.fields = append(g.fields, knownField{here, in})
		}
	}
}

// wholeTypes are structs that are one value in a file.
func wholeTypes() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[metav1.Duration](),
		reflect.TypeFor[resource.Quantity](),
		reflect.TypeFor[resource.QuantityValue](),
		reflect.TypeFor[metav1.Time](),
	}
}

// name is the type of a field as testdata/agreement.yaml names it.
func (f knownField) name() string {
	switch f.of {
	case reflect.TypeFor[metav1.Duration]():
		return "duration"
	case reflect.TypeFor[resource.Quantity](), reflect.TypeFor[resource.QuantityValue]():
		return "quantity"
	}

	return map[reflect.Kind]string{
		reflect.Bool:    "bool",
		reflect.Int32:   "integer",
		reflect.Int64:   "integer",
		reflect.Int:     "integer",
		reflect.Uint32:  "integer",
		reflect.Float64: "number",
		reflect.String:  "text",
		reflect.Map:     "object",
		reflect.Slice:   "list",
	}[f.of.Kind()]
}

func pick[T any](g *inputs, of ...T) T { return of[g.IntN(len(of))] }

// oneIn is true once in n times.
func (g *inputs) oneIn(n int) bool { return g.IntN(n) == 0 }

// oneOrTwo is for a loop.
func (g *inputs) oneOrTwo() int { return 1 + g.IntN(2) }

// draw makes the choices in a value of the data.
func (g *inputs) draw(v any) any {
	switch v := v.(type) {
	case []any:
		chosen := pick(g, v...)
		if object, isObject := chosen.(map[string]any); isObject {
			return g.draw(object)
		}
		return chosen
	case map[string]any:
		out := map[string]any{}
		for _, names := range slices.Sorted(maps.Keys(v)) {
			out[pick(g, strings.Split(names, "|")...)] = g.draw(v[names])
		}
		return out
	}

	return v
}

// drawFields is draw for the fields of a configuration.
func (g *inputs) drawFields(v map[string]any) map[string]any { return g.draw(v).(map[string]any) }

// with is a case whose configuration has these fields over the baseline.
func with(fields map[string]any, flags ...string) inputCase {
	config := parseBaseline()
	merged(config, fields)
	text, err := yaml.Marshal(config)
	if err != nil {
		panic(err)
	}

	return inputCase{Config: string(text), Flags: flags}
}

func parseBaseline() (config map[string]any) {
	if err := yaml.Unmarshal([]byte(baseline), &config); err != nil {
		panic(err)
	}

	return config
}

func nested(path []string, v any) map[string]any {
	for _, name := range slices.Backward(path) {
		v = map[string]any{name: v}
	}

	return v.(map[string]any)
}

func (g *inputs) oneField(i int) inputCase {
	f := g.fields[(i*7+g.IntN(len(g.fields)))%len(g.fields)]
	return with(nested(f.path, g.value(f)))
}

// value is a random one for a field, often right and sometimes of a wrong type.
func (g *inputs) value(f knownField) any {
	words := g.Words[f.path[len(f.path)-1]]
	switch {
	case g.oneIn(12):
		return g.draw(g.Values["wrong"])
	case f.name() == "bool":
		return g.oneIn(2)
	case f.name() == "text" && words != nil:
		return pick(g, words...)
	}

	return g.draw(g.Values[f.name()])
}

// ofType is the i-th field of a type, and a value.
func (g *inputs) ofType(i int, name string, values []any) inputCase {
	var fields []knownField
	for _, f := range g.fields {
		isFlush := name == "duration" && slices.Equal(f.path, []string{"logging", "flushFrequency"})
		if f.name() == name || isFlush {
			fields = append(fields, f)
		}
	}
	f := fields[(i+g.IntN(len(fields)))%len(fields)]

	return with(nested(f.path, pick(g, values...)))
}

func (g *inputs) duration(i int) inputCase {
	values := append(slices.Clone(g.DurationFields), g.anyDuration(), g.anyDuration(), g.anyDuration())

	return g.ofType(i, "duration", values)
}

func (g *inputs) integer(i int) inputCase {
	values := slices.Clone(g.IntegerFields)
	for range 6 {
		values = append(values, g.nearBound())
	}

	return g.ofType(i, "integer", values)
}

// nearBound is a number at a bound that something has, or somewhere between.
func (g *inputs) nearBound() json.Number {
	if g.oneIn(3) {
		return json.Number(strconv.FormatInt(g.Int64N(1<<(1+g.IntN(62))), 10))
	}
	n, _ := new(big.Int).SetString(pick(g, g.Bounds...), 10)

	return json.Number(n.Add(n, big.NewInt(int64(g.IntN(3)-1))).String())
}

// anyDuration is one of any unit and size, now and then malformed.
func (g *inputs) anyDuration() string {
	if g.oneIn(8) {
		return pick(g, g.OddDurations...)
	}

	return strconv.Itoa(g.IntN(1<<(1+g.IntN(12)))) + pick(g, g.DurationUnits...)
}

// amount is a quantity of any size with any suffix, now and then malformed or negative.
func (g *inputs) amount() string {
	if g.oneIn(8) {
		return pick(g, g.OddAmounts...)
	}
	number := strconv.Itoa(g.IntN(1 << (1 + g.IntN(12))))
	if g.oneIn(4) {
		number += "." + strconv.Itoa(g.IntN(1000))
	}

	return number + pick(g, g.AmountSuffixes...)
}

// percentage is one between -1 and 101, now and then malformed.
func (g *inputs) percentage() string {
	switch g.IntN(4) {
	case 0:
		return pick(g, g.OddShares...)
	case 1:
		return strconv.FormatFloat(g.Float64()*102-1, 'f', g.IntN(9), 64) + "%"
	default:
		return strconv.Itoa(g.IntN(100)) + "%"
	}
}

// threshold is of any signal, in a file or as a flag, sometimes together with amounts.
func (g *inputs) threshold(int) inputCase {
	signal := pick(g, g.Thresholds.Signals...)
	value := g.amount()
	if g.oneIn(3) {
		value = g.percentage()
	}
	field := pick(g, g.Thresholds.Fields...)
	fields := map[string]any{}
	if g.oneIn(3) {
		fields["kubeReserved"] = g.draw(g.Thresholds.KubeReserved)
	}
	if field == "evictionSoft" {
		fields["evictionSoftGracePeriod"] = map[string]any{signal: pick(g, "1m", "90s", g.anyDuration())}
	}
	if !g.oneIn(3) || strings.Contains(value, ",") {
		fields[field] = map[string]any{signal: value}
		return with(fields)
	}
	flag := map[string]string{
		"evictionHard":           "eviction-hard=%s<%s",
		"evictionSoft":           "eviction-soft=%s<%s",
		"evictionMinimumReclaim": "eviction-minimum-reclaim=%s=%s",
	}[field]

	return with(fields, fmt.Sprintf(flag, signal, value))
}

// reserved has amounts of any size.
func (g *inputs) reserved(int) inputCase {
	fields := map[string]any{}
	var flags []string
	for range g.oneOrTwo() {
		owner := pick(g, "kube", "system")
		name, amount := pick(g, g.Reserved...), g.amount()
		if g.oneIn(3) {
			flags = append(flags, owner+"-reserved="+name+"="+amount)
		} else {
			fields[owner+"Reserved"] = map[string]any{name: amount}
		}
	}
	if g.oneIn(6) {
		fields["containerLogMaxSize"] = g.amount()
	}

	return with(fields, flags...)
}

// list is a flag that takes a list, with elements that are empty, in quotes or among spaces, or one that takes a
// number, spelled in any way.
func (g *inputs) list(int) inputCase {
	if g.oneIn(4) {
		number := pick(g, append(g.OddNumbers, strconv.Itoa(g.IntN(60)))...)
		return with(nil, pick(g, g.NumberFlags...)+"="+number)
	}

	name := pick(g, slices.Sorted(maps.Keys(g.ListFlags))...)
	var words []string
	for range g.IntN(3) {
		words = append(words, pick(g, g.ListFlags[name]...))
	}
	odd := slices.Concat(g.OddElements, g.OddQuotes)
	isQuoted := name == "node-labels" || name == "register-with-taints"
	if isQuoted {
		odd = g.OddElements
	}
	if !g.oneIn(3) {
		words = slices.Insert(words, g.IntN(len(words)+1), pick(g, odd...))
	}
	if isQuoted {
		words = slices.DeleteFunc(words, func(w string) bool { return strings.Contains(w, "\"") })
	}

	return with(nil, name+"="+strings.Join(words, ","))
}

// dropIn has a folder of drop-ins that others have left, over a configuration of another kind. Each may set, replace or
// remove what an earlier file has, so that either of the two decides.
func (g *inputs) dropIn(i int) inputCase {
	c := g.oneOf(i)
	c.DropIns = map[string]string{}
	var last *knownField
	for range 1 + g.IntN(3) {
		name := pick(g, g.DropInNames...)
		if g.oneIn(10) {
			name = pick(g, g.OddDropInNames...)
		}
		c.DropIns[name] = g.dropInText(i, &last)
	}

	return c
}

// oneOf is an input of a kind that makes a configuration.
func (g *inputs) oneOf(i int) inputCase {
	return pick(
		g,
		(*inputs).oneField, (*inputs).combination, (*inputs).duration, (*inputs).integer, (*inputs).manager,
		(*inputs).valid, (*inputs).valid, (*inputs).valid, (*inputs).valid, (*inputs).valid, (*inputs).valid,
		(*inputs).threshold, (*inputs).reserved,
	)(g, i)
}

// unit has all flags in the unit of a vendor: in its command line, and in variables that Environment= or one of three
// files sets. Some have an odd word, such as a flag without a value, at the end of a part.
func (g *inputs) unit(i int) inputCase {
	if i%4 == 0 {
		return g.placed(i)
	}
	c := g.oneOf(i)
	if g.oneIn(3) {
		c = g.dropIn(i)
	}
	command := pick(g, g.UnitCommands...)
	names := slices.Compact(slices.Sorted(slices.Values(variables.FindAllString(command, -1))))
	values := map[string][]string{}
	add := func(words ...string) {
		name := pick(g, append(names, "@")...)
		values[name] = append(values[name], words...)
	}
	for range g.IntN(4) {
		add(g.flagWords(i)...)
	}
	if c.DropIns != nil {
		add("--config-dir=" + agreementFolder)
	}
	if g.oneIn(2) {
		add(strings.Fields(pick(g, g.OddWords...))...)
	}

	text := map[string]string{}
	environment := ""
	for _, name := range names {
		value := strings.Join(values[name], " ")
		switch file := pick(g, "", flagsFile, kubeadmFile, otherFile); file {
		case "":
			environment += fmt.Sprintf("Environment=\"%s=%s\"\n", strings.Trim(name, "${}"), value)
		default:
			text[file] += fmt.Sprintf("%s=%q\n", strings.Trim(name, "${}"), value)
		}
	}
	command = strings.ReplaceAll(command, "@", strings.Join(values["@"], " "))
	if _, isRead := text[otherFile]; isRead {
		environment = "EnvironmentFile=-" + otherFile + "\n" + environment
	}
	text[unitDropIn] = unitText(environment, command)
	if g.oneIn(3) {
		g.respell(text)
	}
	c.Flags, c.Unit = nil, text

	return c
}

// placed has one bad value at a known place, in a file of the unit or of the configuration; the rest is right.
func (g *inputs) placed(i int) inputCase {
	c := g.valid(i)
	command := "--v=2 $KUBELET_ARGS $KUBELET_EXTRA_ARGS"
	bad, variable := pick(g, g.BadWords...), pick(g, "KUBELET_ARGS", "KUBELET_EXTRA_ARGS")
	environment := "Environment=" + strconv.Quote(variable+"="+bad) + "\n"
	text := map[string]string{}
	find := func(file, part string) string {
		before, _, _ := strings.Cut(text[file], part)
		return fmt.Sprintf("%s:%d", file, 1+strings.Count(before, "\n"))
	}

	switch i / 4 % 7 {
	case 0:
		text[unitDropIn] = unitText(pick(g, "", "# a comment\n\n"), command+" "+bad)
		c.Place = find(unitDropIn, bad)
	case 1:
		text[unitDropIn] = unitText("", command)
		text[laterDropIn] = unitText("", pick(g, command+" ", command+" \\\n  ")+bad)
		c.Place = find(laterDropIn, "ExecStart=/")
	case 2:
		text[unitDropIn] = unitText(environment, command)
		c.Place = find(unitDropIn, bad)
	case 3:
		text[unitDropIn] = unitText("Environment="+variable+"=--v=3\n", command)
		text[laterDropIn] = "[Service]\n" + environment
		c.Place = find(laterDropIn, bad)
	case 4:
		c.Place = pick(g, flagsFile, kubeadmFile, otherFile)
		text[c.Place] = fmt.Sprintf("%s=%q\n", variable, bad)
		text[unitDropIn] = unitText("EnvironmentFile=-"+c.Place+"\n", command)
	case 5:
		text[unitDropIn] = unitText("", command+" --config-dir="+agreementFolder)
		name := pick(g, g.DropInNames...)
		c.DropIns = map[string]string{name: with(pick(g, g.BadFields...)).Config}
		c.Place = agreementFolder + "/" + name
	default:
		text[unitDropIn] = unitText("", command)
		c.Config = with(pick(g, g.BadFields...)).Config
		c.Place = "site.hcl"
	}
	c.Unit = text

	return c
}

// respell writes a unit in another way: a prefix before the program, a command line of several lines, one drop-in more
// that resets it, and now and then one that systemd refuses.
func (g *inputs) respell(text map[string]string) {
	const start = "ExecStart="
	at := strings.LastIndex(text[unitDropIn], start) + len(start)
	before, line := text[unitDropIn][:at], pick(g, "", "", "-", "+", ":", "!!", "-:")+text[unitDropIn][at:]
	switch g.IntN(5) {
	case 0:
		line = strings.ReplaceAll(line, " $", " \\\n  $")
	case 1:
		text[laterDropIn] = "[Service]\nExecStart=\nExecStart=" + line
	case 2:
		text[laterDropIn] = "[Service]\nEnvironmentFile=-/etc/nosuch.env\n"
	case 3:
		text[laterDropIn] = "[Service]\nExecStart=" + pick(g, "\nExecStart=", "") + line
	}
	text[unitDropIn] = before + line
}

var variables = regexp.MustCompile(`\$\{?\w+\}?`)

// flagWords are the flags of an input of another kind, spelled in one of the ways of a command line. What systemd reads
// otherwise in one of the files is left out.
func (g *inputs) flagWords(i int) (words []string) {
	make := pick(g, (*inputs).flag, (*inputs).label, (*inputs).taint, (*inputs).list, (*inputs).gate)
	for _, f := range make(g, i).Flags {
		name, value, _ := strings.Cut(f, "=")
		switch {
		case strings.ContainsAny(f, " \t\n\"'\\$%#;") || len(f) > 1000:
		case g.oneIn(3):
			words = append(words, "--"+name, value)
		default:
			words = append(words, "--"+f)
		}
	}

	return slices.DeleteFunc(words, func(w string) bool { return w == "" })
}

// dropInText is the text of a drop-in: one field, which may be that of the last one, all of another input, or now and
// then something that the kubelet may not read.
func (g *inputs) dropInText(i int, last **knownField) string {
	switch {
	case g.oneIn(12):
		return g.fill(pick(g, g.OddDropIns...))
	case g.oneIn(4):
		return g.oneOf(i).Config
	}

	if *last == nil || !g.oneIn(3) {
		*last = &g.fields[g.IntN(len(g.fields))]
	}
	value := g.value(**last)
	if g.oneIn(8) {
		value = nil
	}
	text, err := yaml.Marshal(nested((*last).path, value))
	if err != nil {
		panic(err)
	}

	return g.fill("{head}" + string(text))
}

func (g *inputs) gate(int) inputCase {
	set := map[string]any{}
	for range g.oneOrTwo() {
		name := pick(g, g.gates...)
		switch g.IntN(20) {
		case 0:
			name = "NoSuchGate"
		case 1:
			name = pick(g, "AllAlpha", "AllBeta")
		}
		set[name] = g.oneIn(2)
	}
	if !g.oneIn(4) {
		return with(map[string]any{"featureGates": set})
	}

	return with(nil, pick(g, "feature-gates=", "feature_gates=")+joinObject(set, "="))
}

// joinObject is an object as a flag takes it.
func joinObject(object map[string]any, sign string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		list = append(list, name+sign+fmt.Sprint(object[name]))
	}

	return strings.Join(list, ",")
}

// flag is one flag that some kubelet has had, with a value that may be right.
func (g *inputs) flag(int) inputCase {
	var out []string
	isSet := map[string]bool{}
	for range g.oneOrTwo() {
		f := pick(g, g.flags...)
		for slices.Contains(g.NotTried, f.name) || !f.isNow && !g.oneIn(8) || isSet[f.name] {
			f = pick(g, g.flags...)
		}
		isSet[f.name] = true // under both of its spellings it is an error of the site, and not the kubelet's
		name := f.name
		if g.oneIn(3) {
			name = strings.ReplaceAll(name, "-", "_")
		}
		if g.oneIn(8) {
			out = append(out, name+"="+g.flagValue(f))
		}
		out = append(out, name+"="+g.flagValue(f))
	}

	return with(nil, out...)
}

// flagValue is a value of the type that a flag takes, or now and then any other.
func (g *inputs) flagValue(f knownFlag) string {
	if g.oneIn(6) {
		return fmt.Sprint(pick(g, g.Values["flag"]...))
	}

	i := slices.IndexFunc(g.fields, func(k knownField) bool { return strings.Join(k.path, ".") == f.field })
	switch {
	case f.takes == "bool":
		return pick(g, "true", "false")
	case f.takes == "ip":
		return pick(g, "10.0.0.5", "0.0.0.0", "127.0.0.1", "::", "")
	case strings.HasPrefix(f.takes, "int"):
		return pick(g, "0", "1", "-1", "100")
	case f.takes == "duration":
		return pick(g, "0s", "10s", "1m", "-1s")
	case f.field == "featureGates":
		return pick(g, g.gates...) + "=" + pick(g, "true", "false")
	case i < 0:
		return pick(g, "", "x", "/var/lib/kubelet-case/x")
	}

	switch v := g.value(g.fields[i]).(type) {
	case map[string]any:
		if f.field == "evictionHard" || f.field == "evictionSoft" {
			return joinObject(v, "<")
		}
		return joinObject(v, "=")
	case []any:
		var list []string
		for _, e := range v {
			list = append(list, fmt.Sprint(e))
		}

		return strings.ReplaceAll(strings.Join(list, ","), " ", "_")
	default:
		return strings.ReplaceAll(fmt.Sprint(v), "\n", "")
	}
}

// goodOrAny is a text of one of two lists, with repetitions written out.
func (g *inputs) goodOrAny(good, others []string) string {
	if g.oneIn(2) {
		return pick(g, good...)
	}

	return g.fill(pick(g, others...))
}

func (g *inputs) label(int) inputCase {
	var list []string
	for range 1 + g.IntN(3) {
		key := g.goodOrAny(g.Label.GoodKeys, g.Label.Keys)
		list = append(list, key+"="+g.goodOrAny(g.Label.GoodValues, g.Label.Values))
	}

	return with(nil, pick(g, "node-labels=", "node-labels=", "node_labels=")+strings.Join(list, ","))
}

func (g *inputs) taint(int) inputCase {
	isField := g.oneIn(2)
	var fields []any
	var flags []string
	for range g.oneOrTwo() {
		key := g.goodOrAny(g.Taint.GoodKeys, g.Taint.Keys)
		value := g.goodOrAny(g.Taint.GoodValues, g.Taint.Values)
		effect := pick(g, g.Effects...)
		fields = append(fields, map[string]any{"key": key, "value": value, "effect": effect})
		withValue := key + "=" + strings.ReplaceAll(value, " ", "_")
		flags = append(flags, pick(g, key, withValue)+":"+effect)
	}
	if isField {
		return with(map[string]any{"registerWithTaints": fields})
	}

	return with(nil, pick(g, "register-with-taints=", "register_with_taints=")+strings.Join(flags, ","))
}

func (g *inputs) manager(int) inputCase {
	fields := g.drawFields(g.Manager)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if g.oneIn(3) {
			delete(fields, name)
		}
	}

	return with(fields)
}

// combination has several fields that depend on each other.
func (g *inputs) combination(int) inputCase {
	fields := g.drawFields(pick(g, g.Combinations...))
	if g.oneIn(3) {
		merged(fields, g.drawFields(pick(g, g.Combinations...)))
	}

	return with(fields)
}

// valid has several fields, all of them right.
func (g *inputs) valid(int) inputCase {
	names := slices.Sorted(maps.Keys(g.Valid))
	fields := map[string]any{}
	for range 4 + g.IntN(9) {
		name := pick(g, names...)
		fields[name] = g.draw(g.Valid[name])
	}

	return with(fields)
}

// raw is the text of a file in many forms.
func (g *inputs) raw(int) inputCase {
	return inputCase{Config: g.fill(pick(g, g.Files...))}
}

var repetition = regexp.MustCompile(`\{(\d+) ([^}]*)\}`)

// fill replaces what is in braces in a text of the data.
func (g *inputs) fill(text string) string {
	if !strings.Contains(text, "{") {
		return text
	}

	inJSON, err := json.Marshal(parseBaseline())
	if err != nil {
		panic(err)
	}
	lines := strings.SplitAfterN(baseline, "\n", 3)
	text = strings.NewReplacer(
		"{base}", baseline,
		"{base with CRLF}", strings.ReplaceAll(baseline, "\n", "\r\n"),
		"{json}", strings.TrimSuffix(string(inJSON), "}"),
		"{head}", lines[0]+lines[1],
		"{fields}", lines[2],
		"{n}", pick(g, "20", "64", "110"),
		"{bad}", "\xff\xfe",
	).Replace(text)

	return repetition.ReplaceAllStringFunc(text, func(found string) string {
		part := repetition.FindStringSubmatch(found)
		n, err := strconv.Atoi(part[1])
		if err != nil {
			panic(err)
		}

		return strings.Repeat(part[2], n)
	})
}

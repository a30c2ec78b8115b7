# The table of `make bench`, from the samples of bench.sh: jq -s --argjson program_mb MB --argjson fail_above FACTOR.
# Prints an object with the text and with the budgets that are missed by more than the factor; none for factor 0.
# A program that was not measured, above all the floor, is an error: a budget of nothing would be met.

def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
def fixed($digits): . * pow(10; $digits) | round | tostring | if $digits == 0 then . else
	("0" * ([$digits + 1 - length, 0] | max) // "") + . | .[:-$digits] + "." + .[-$digits:] end;
def left($width): . + (" " * ([$width - length, 0] | max) // "");
def right($width): (" " * ([$width - length, 0] | max) // "") + .;

["floor", "prelet, first run", "prelet, again before it joined", "prelet, nothing to do", "prelet version",
	"detect, no detector", "detect, one without its device", "detect, one detector", "detect, four detectors",
	"plan, 1000 recordings", "plan, 10000 recordings"] as $names
| . as $samples
| reduce $names[] as $name ({};
	[$samples[] | select(.name == $name)] as $of
	| if ($of | length) == 0 or ($of | any(.wall_ms <= 0 or .memory_mib <= 0)) then error("\($name) was not measured")
	else .[$name] = {
		wall: ($of | map(.wall_ms) | median), least: ($of | map(.wall_ms) | min),
		cpu: ($of | map(.cpu_ms) | median), memory: ($of | map(.memory_mib) | median)} end)
| . as $of | .floor as $floor
| ([$names[] | select(startswith("prelet") or startswith("detect")) | $of[.].memory] | max) as $peak
| [
	["first run, wall over floor", 5, $of["prelet, first run"].wall / $floor.wall],
	["nothing to do, wall over floor", 4, $of["prelet, nothing to do"].wall / $floor.wall],
	["one detector adds, wall over floor", 4,
		($of["detect, one detector"].wall - $of["detect, no detector"].wall) / $floor.wall],
	["four detectors add, wall over floor", 12,
		($of["detect, four detectors"].wall - $of["detect, no detector"].wall) / $floor.wall],
	["peak memory, MiB", 64, $peak],
	["program, MB", 30.9, $program_mb],
	["1,000 recordings, s", 10, $of["plan, 1000 recordings"].wall / 1000],
	["10,000 recordings, peak memory, MiB", 300, $of["plan, 10000 recordings"].memory]
] as $budgets
| {
	text: ([
		("program" | left(32)) + (["least ms", "wall ms", "×", "CPU ms", "×", "memory MiB"] | map(right(11)) | add),
		($names[] | . as $name | $of[.] | ($name | left(32)) + ([
			(.least | fixed(1)), (.wall | fixed(1)), (.wall / $floor.wall | fixed(2)),
			(.cpu | fixed(1)), (.cpu / $floor.cpu | fixed(2)), (.memory | fixed(1))] | map(right(11)) | add)),
		"",
		("budget" | left(40)) + ("at most" | right(10)) + ("got" | right(10)),
		($budgets[] | (.[0] | left(40)) + (.[1] | tostring | right(10)) + (.[2] | fixed(2) | right(10))
			+ if .[2] > .[1] then "  MISSED" else "  met" end)
	] | join("\n")),
	exceeded: [$budgets[] | select($fail_above > 0 and .[2] > $fail_above * .[1])
		| "\(.[0]): got \(.[2] | fixed(1)), more than \($fail_above) times the budget of \(.[1])"]
}

# The part of bench/README.md with figures, as Markdown, from the lines that peers.sh wrote: jq -rs -f peers.jq.
# With --arg data growth: what growth.gp draws instead, blocks of lines NUMBER LEAST MEDIAN MOST in seconds.

def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
def fixed: . * 100 | round | "\(. / 100 | floor).\("0\(. % 100)"[-2:])";

# Another program's version without its build, and of a pseudo-version the day.
def short_version: if startswith("v0.0.0-") then "of \(.[7:11])-\(.[11:13])-\(.[13:15])" else sub("\\+.*"; "") end;

def kinds: "stages", "gpus", "nics", "recordings";

def table: .[0] as $run | . as $lines
	| def of($name): [$lines[] | select(.name == $name and .wall_ms)];
	of("kubeadm join phase kubelet-start") as $kubeadm
	| "\($run.date), \($run.rounds) rounds; \($run.cpu), Linux \($run.kernel).\n\($run.machine).\n",
	"| program | version | wall, ms: least | median | CPU, ms: least | median | memory, MiB | on disk, MB |",
	"|---|---|---|---|---|---|---|---|",
	($lines[] | select(.disk_bytes) | of(.name) as $of
		| "| \(.name) | \(.version | short_version) | \($of | map(.wall_ms) | min | round) " +
		"| **\($of | map(.wall_ms) | median | round)** | \($of | map(.cpu_ms) | min | round) " +
		"| \($of | map(.cpu_ms) | median | round) | \($of | map(.memory_mib) | median | round) " +
		"| \(.disk_bytes / 1e6 | round) |"),
	"\n| median over that of `kubeadm join phase kubelet-start` | wall | CPU |\n|---|---|---|",
	($lines[] | select(.disk_bytes and (.name | startswith("prelet"))) | of(.name) as $of
		| "| \(.name) | \(($of | map(.wall_ms) | median) / ($kubeadm | map(.wall_ms) | median) | fixed) " +
		"| \(($of | map(.cpu_ms) | median) / ($kubeadm | map(.cpu_ms) | median) | fixed) |"),
	"\n| what grows | number | wall, ms: least | median | CPU, ms: median | memory, MiB |\n|---|---|---|---|---|---|",
	(kinds as $name | [$lines[] | select(.name == $name)] | group_by(.x)[]
		| "| \($name | {gpus: "GPUs", nics: "network interfaces"}[.] // .) | \(.[0].x) " +
		"| \(map(.wall_ms) | min | round) | **\(map(.wall_ms) | median | round)** " +
		"| \(map(.cpu_ms) | median | round) | \(map(.memory_mib) | median | round) |");

def growth: . as $lines | kinds as $name
	| ([$lines[] | select(.name == $name)] | group_by(.x)[] | map(.wall_ms / 1000)
		as $wall | "\(.[0].x) \($wall | min) \($wall | median) \($wall | max)"), "\n";

if $ARGS.named.data == "growth" then growth else table end

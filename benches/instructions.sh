#!/usr/bin/env bash
# Counts the instructions that a request costs, and compares them with benches/instructions.txt.
# Fails if a count is more than a tenth above the one there. With --write, replaces them.
set -euo pipefail
cd "$(dirname "$0")/.."

counts=$PWD/benches/instructions.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Counts what runs inside of `measured`, and writes a file each time that it returns.
valgrind=(
  valgrind --quiet --tool=callgrind "--callgrind-out-file=$work/out"
  --toggle-collect=instructions::measured --dump-after=instructions::measured
)
runner=$(printf "'%s'," "${valgrind[@]}")
cargo bench --quiet --locked --bench instructions --config "target.'cfg(all())'.runner=[$runner]" \
  >"$work/names"

# One file for each line that was printed, numbered from 1.
number=0
while read -r repeats name; do
  number=$((number + 1))
  total=$(awk '/^(totals|summary):/ { print $2; exit }' "$work/out.$number")
  printf '%9d  %s\n' $((total / repeats)) "$name"
done <"$work/names" >"$work/counts"
[ "$number" -gt 0 ]

if [ "${1-}" = --write ]; then
  cp "$work/counts" "$counts"
fi
awk '
  { count = $1; $1 = ""; name = substr($0, 2) }
  FNR == NR { allowed[name] = count; next }
  {
    change = allowed[name] ? sprintf("%+6.1f %%", 100 * (count / allowed[name] - 1)) : "new"
    printf "%9d  %8s  %s\n", count, change, name
    if (!(name in allowed) || count > 1.1 * allowed[name]) { failed = failed "\n  " name }
    delete allowed[name]
  }
  END {
    for (name in allowed) { failed = failed "\n  no longer counted: " name }
    if (failed) {
      print "more than a tenth above benches/instructions.txt, or not in it:" failed > "/dev/stderr"
      exit 1
    }
  }
' "$counts" "$work/counts"

#!/bin/sh
# The main job on a real broker's log dir: damage a partition, see what a broker would lose, recover, read it, undo.
set -eu
cd "$(dirname "$0")/.."
PYTHON=${KAFKALOG_PYTHON:-$PWD/.venv/bin/python}
export PYTHONPATH="$PWD"
LOGS="$("$PYTHON" -m tests.support.corpus)/kafka-4.3.1/logs"
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT INT TERM

bold='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
    bold=$(printf '\033[1m') plain=$(printf '\033[0m')
    export FORCE_COLOR=1 # the output passes through a file
fi

show() { # run a command, show its beginning; problems found are part of the demo
    printf '\n%s$ kafkalog %s%s\n' "$bold" "$*" "$plain"
    status=0
    "$PYTHON" -m kafkalog_cli.main "$@" > "$WORK/output" 2>&1 || status=$?
    head -"${lines:-8}" "$WORK/output" | cut -c1-170
    [ "$(wc -l < "$WORK/output")" -le "${lines:-8}" ] || printf '… (%s lines)\n' "$(wc -l < "$WORK/output")"
    printf '= exit status %s\n' "$status"
}

say() { printf '\n# %s\n' "$*"; }

cp -R "$LOGS/unclean/d0" "$WORK/data"
cd "$WORK"
PARTITION=data/u-rolls-0
say "The log dir of a Kafka 4.3.1 broker that was killed while it wrote. Now the disk garbles 19 bytes of one log:"
printf 'a bad day on a disk' | dd of="$PARTITION/00000000000000000173.log" bs=1 seek=4000 conv=notrunc 2> dd.log
show verify "$PARTITION"
say "What would a broker do at its next start? It truncates the log there, and deletes every segment after it:"
show recover --dry-run "$PARTITION"
say "The sound batches after the damage can be kept. What is truncated goes into a quarantine:"
show recover --salvage --quarantine saved "$PARTITION"
say "Every index fits its log again; the loss is still reported:"
show verify "$PARTITION"
say "Read it as a consumer, from the last record before the damage:"
show fetch --offset 213 --limit 3 -f 'offset %o  key %k  %s\n' "$PARTITION"
show dump-log --count --offset 213: "$PARTITION"
say "And back, byte for byte:"
lines=20
show restore saved
say "Where to go on: the scenes in README.md; each command's --help. Many log dirs at once, on Spark: docs/spark/jobs.md"

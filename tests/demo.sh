#!/bin/sh
# The main job on a real broker's directory: read its logs, check its indexes, look at damage.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
cd "$(python -c 'import sys; sys.path.insert(0, "."); from tests.support.corpus import own_corpus_directory; print(own_corpus_directory())')/kafka-4.3.1/logs"

show() { # run a command, show its beginning; problems found are part of the demo
    printf '\n$ kafkalog %s\n' "$*"
    kafkalog "$@" > /tmp/kafkalog-demo.$$ 2>&1 || status=$?
    cut -c1-160 /tmp/kafkalog-demo.$$ | head -12
    printf '… (%s lines, exit status %s)\n' "$(wc -l < /tmp/kafkalog-demo.$$)" "${status:-0}"
    rm -f /tmp/kafkalog-demo.$$
    status=0
}

echo "A log directory that a Kafka 4.3.1 broker wrote: $(ls clean/d1 | wc -l) entries"
show dump-log --print-data-log clean/d1/small_segments-0/00000000000000000000.log
show dump-log clean/d1/small_segments-0/00000000000000000000.index
show dump-log --offsets-decoder clean/d0/__consumer_offsets-0/00000000000000000000.log
show dump-log --continue-on-corruption --deep-iteration damaged/garbage-between-0

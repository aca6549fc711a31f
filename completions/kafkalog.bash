# bash completion for kafkalog, made by `make docs`

# words that begin with what was typed, and no file names
_kafkalog_words() {
    compopt +o default 2>/dev/null
    local word
    for word in $1; do
        [[ $word == "$2"* ]] && COMPREPLY+=("$word")
    done
}

# the last one of several file names with commas between them
_kafkalog_files() {
    compopt +o default 2>/dev/null
    compopt -o nospace 2>/dev/null
    local before='' name
    [[ $1 == *,* ]] && before=${1%,*},
    while IFS= read -r name; do
        [[ -d $name ]] && name=$name/
        COMPREPLY+=("$before$(printf %q "$name")")
    done < <(compgen -f -- "${1##*,}")
}

# topics (1) or numbers (2) of the partitions in the log dirs, or trees of them, that the command line names
_kafkalog_partitions() {
    compopt +o default 2>/dev/null
    local place name
    for place in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        place=${place/#\~/$HOME}
        [[ -d $place ]] || continue
        for name in "$place"/*-[0-9]*/ "$place"/*/*-[0-9]*/; do
            name=${name%/}
            [[ ${name##*/} =~ ^(.+)-([0-9]+)$ ]] || continue
            name=${BASH_REMATCH[$1]}
            [[ $name == "$2"* && " ${COMPREPLY[*]} " != *" $name "* ]] && COMPREPLY+=("$name")
        done
    done
}

_kafkalog() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command='' at=0 i
    COMPREPLY=()
    # bash makes three words of --option=value
    if [[ $cur == = ]]; then
        cur=''
    elif [[ $prev == = ]]; then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} == -- ]] && return
        [[ ${COMP_WORDS[i]} == -* ]] && continue
        case $command in
        '') command=${COMP_WORDS[i]} at=$i ;;
        remote|spark) command+=" ${COMP_WORDS[i]}" at=$i ;;
        esac
    done
    case $command in
    '')
        _kafkalog_words 'append check completion compact delete-records diff du dump-log explain export verify ls recover fetch grep groups help metadata remote report requests restore retain roll serve spark truncate txn undelete verify-index -V --version -h --help' "$cur"
        ;;
    append)
        case $prev in
        --input|--quarantine|--config-file|--metrics-textfile)
            return
            ;;
        --input-format)
            _kafkalog_words 'json text raw produce-request' "$cur"
            return
            ;;
        --separator|--null|--timestamp|--offset|--time|--key|--key-regex|--header|--partition-leader-epoch|--limit|--tail|--partitions|--linger|--seed|--compression-level|--batch-size|--leader-epoch|--producer-id|--producer-epoch|--sequence|--coordinator-epoch|--topic-id|--flush-messages|--flush-ms|--recovery-point|--log-start-offset|--high-watermark|--config|--now|-j|--jobs)
            compopt +o default 2>/dev/null
            return
            ;;
        --topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        --partitioner)
            _kafkalog_words 'default sticky round-robin' "$cur"
            return
            ;;
        --compression)
            _kafkalog_words 'none gzip snappy lz4 zstd' "$cur"
            return
            ;;
        --magic)
            _kafkalog_words '0 1' "$cur"
            return
            ;;
        --transaction)
            _kafkalog_words 'commit abort open' "$cur"
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '--input --input-format --ignore-unknown --separator --null --timestamp --offset --time --key --key-regex --header --partition-leader-epoch --transactional-only --limit --tail --topic --partitions --partitioner --linger --seed --compression --compression-level --batch-size --leader-epoch --follower --magic --producer-id --producer-epoch --sequence --transaction --coordinator-epoch --create --topic-id --flush-messages --flush-ms --keep-deleted --quarantine --clean-start --recovery-point --log-start-offset --high-watermark --config --config-file --now -n --dry-run -q --quiet -v --verbose --bytes --format -j --jobs --metrics-textfile -V --version -h --help' "$cur"
        fi
        ;;
    check)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        -p|--partition)
            _kafkalog_partitions 2 "$cur"
            return
            ;;
        --level)
            _kafkalog_words 'start quick full' "$cur"
            return
            ;;
        --config-file|--state|--metrics-textfile)
            return
            ;;
        --now|-j|--jobs|--max-duration|--max-age)
            compopt +o default 2>/dev/null
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl junit' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic -p --partition --level --config-file --now -j --jobs --state --max-duration --max-age --all -q --quiet --bytes --format --metrics-textfile -V --version -h --help' "$cur"
        fi
        ;;
    completion)
        case $prev in
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-h --help' "$cur"
        elif (( COMP_CWORD == at + 1 )); then
            _kafkalog_words 'bash zsh fish' "$cur"
        fi
        ;;
    compact)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        -p|--partition)
            _kafkalog_partitions 2 "$cur"
            return
            ;;
        --first-dirty-offset|--min-dirty-ratio|--rounds|--dedupe-buffer-size|--io-buffer-size|--max-io-buffer-size|--max-bytes-per-second|--recovery-point|--log-start-offset|--high-watermark|--config|--now|-j|--jobs)
            compopt +o default 2>/dev/null
            return
            ;;
        --quarantine|--config-file|--metrics-textfile)
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic -p --partition --first-dirty-offset --min-dirty-ratio --force --rounds --keep-deleted --quarantine --explain --dedupe-buffer-size --io-buffer-size --max-io-buffer-size --max-bytes-per-second --clean-start --recovery-point --log-start-offset --high-watermark --config --config-file --now -n --dry-run -y --yes -q --quiet -v --verbose --bytes --format -j --jobs --metrics-textfile -V --version -h --help' "$cur"
        fi
        ;;
    delete-records)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        -p|--partition)
            _kafkalog_partitions 2 "$cur"
            return
            ;;
        --before|--recovery-point|--log-start-offset|--high-watermark|--config|--now|-j|--jobs)
            compopt +o default 2>/dev/null
            return
            ;;
        --quarantine|--config-file|--metrics-textfile)
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic -p --partition --before --keep-deleted --quarantine --no-quarantine --clean-start --recovery-point --log-start-offset --high-watermark --config --config-file --now -n --dry-run -y --yes -q --quiet -v --verbose --bytes --format -j --jobs --metrics-textfile -V --version -h --help' "$cur"
        fi
        ;;
    diff)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        -p|--partition)
            _kafkalog_partitions 2 "$cur"
            return
            ;;
        --by)
            _kafkalog_words 'range batch record' "$cur"
            return
            ;;
        --acks|--export)
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic -p --partition --by --acks --export --format -V --version -h --help' "$cur"
        fi
        ;;
    du)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        -p|--partition)
            _kafkalog_partitions 2 "$cur"
            return
            ;;
        --by|--time|--top|--recompress|--now|--config)
            compopt +o default 2>/dev/null
            return
            ;;
        --sort)
            _kafkalog_words 'bytes name' "$cur"
            return
            ;;
        --config-file)
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic -p --partition --by --time --sort --top --reclaimable --recompress --now --config --config-file --bytes --format -V --version -h --help' "$cur"
        fi
        ;;
    dump-log)
        case $prev in
        --files)
            _kafkalog_files "$cur"
            return
            ;;
        --max-bytes|--max-message-size|--offset|--time|--key|--key-regex|--header|--producer-id|--partition-leader-epoch|--limit|--tail|--key-prefix|--private-key|-j|--jobs|--max-decompressed-bytes|--max-batch-bytes)
            compopt +o default 2>/dev/null
            return
            ;;
        --key-decoder-class|--value-decoder-class)
            if [[ $cur != -* ]]; then
                _kafkalog_words 'StringDecoder IntegerDecoder LongDecoder DefaultDecoder org.apache.kafka.tools.api.StringDecoder org.apache.kafka.tools.api.IntegerDecoder org.apache.kafka.tools.api.LongDecoder org.apache.kafka.tools.api.DefaultDecoder' "$cur"
                return
            fi
            ;;
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        -p|--partition)
            _kafkalog_partitions 2 "$cur"
            return
            ;;
        --store|--log-dir|--config-file|--schema)
            return
            ;;
        --layout)
            _kafkalog_words 'auto local aiven' "$cur"
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        --decode)
            _kafkalog_words 'auto' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '--files --print-data-log --deep-iteration --skip-record-metadata --verify-index-only --index-sanity-check --max-bytes --max-message-size --key-decoder-class --value-decoder-class --offsets-decoder --transaction-log-decoder --cluster-metadata-decoder --remote-log-metadata-decoder --share-group-state-decoder -t --topic -p --partition --offset --time --key --key-regex --header --producer-id --partition-leader-epoch --transactional-only --limit --tail --count --store --log-dir --layout --key-prefix --private-key --config-file --format --decode --schema -j --jobs --continue-on-corruption --max-decompressed-bytes --max-batch-bytes -V --version -h --help' "$cur"
        fi
        ;;
    explain)
        case $prev in
        --at|--offset|--entry|--max-decompressed-bytes|--width)
            compopt +o default 2>/dev/null
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '--at --offset --entry --records --max-decompressed-bytes --format --width -V --version -h --help' "$cur"
        fi
        ;;
    export)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        -p|--partition)
            _kafkalog_partitions 2 "$cur"
            return
            ;;
        --offset|--time|--key-prefix|--private-key|--columns|-j|--jobs)
            compopt +o default 2>/dev/null
            return
            ;;
        --isolation)
            _kafkalog_words 'read_uncommitted read_committed' "$cur"
            return
            ;;
        --store|--log-dir|--config-file|--to|--schema)
            return
            ;;
        --layout)
            _kafkalog_words 'auto local aiven' "$cur"
            return
            ;;
        --as)
            _kafkalog_words 'jsonl csv arrow parquet' "$cur"
            return
            ;;
        --decode)
            _kafkalog_words 'auto' "$cur"
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic -p --partition --offset --time --isolation --store --log-dir --layout --key-prefix --private-key --config-file --to --as --columns --decode --schema --csv-safe --resume -j --jobs --format -q --quiet -v --verbose -V --version -h --help' "$cur"
        fi
        ;;
    verify)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        -p|--partition)
            _kafkalog_partitions 2 "$cur"
            return
            ;;
        --config|--now|--key-prefix|--private-key|-j|--jobs)
            compopt +o default 2>/dev/null
            return
            ;;
        --config-file|--quarantine|--store|--log-dir)
            return
            ;;
        --layout)
            _kafkalog_words 'auto local aiven' "$cur"
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic -p --partition --config --config-file --rebuild --quarantine --no-quarantine -n --dry-run -y --yes --now --store --log-dir --layout --key-prefix --private-key -q --quiet -v --verbose --bytes --format -j --jobs -V --version -h --help' "$cur"
        fi
        ;;
    ls)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        -p|--partition)
            _kafkalog_partitions 2 "$cur"
            return
            ;;
        --sort)
            _kafkalog_words 'name size records time' "$cur"
            return
            ;;
        --config)
            compopt +o default 2>/dev/null
            return
            ;;
        --config-file)
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic -p --partition --topics -l --long --sort --config --config-file --bytes --format -V --version -h --help' "$cur"
        fi
        ;;
    recover)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        -p|--partition)
            _kafkalog_partitions 2 "$cur"
            return
            ;;
        --start-beyond-end)
            _kafkalog_words 'refuse keep delete' "$cur"
            return
            ;;
        --quarantine|--config-file|--metrics-textfile)
            return
            ;;
        --recovery-point|--log-start-offset|--config|--now|-j|--jobs)
            compopt +o default 2>/dev/null
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic -p --partition --full --salvage --accept-metadata-loss --start-beyond-end --mark-clean --keep-deleted --quarantine --no-quarantine --clean-start --recovery-point --log-start-offset --config --config-file --now -n --dry-run -y --yes -q --quiet -v --verbose --bytes --format -j --jobs --metrics-textfile -V --version -h --help' "$cur"
        fi
        ;;
    fetch)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        -p|--partition)
            _kafkalog_partitions 2 "$cur"
            return
            ;;
        --offset|--time|--key|--key-regex|--header|--producer-id|--partition-leader-epoch|--limit|--tail|--until|--max-bytes|--log-start-offset|--high-watermark|--key-prefix|--private-key|-f|--template|-j|--jobs)
            compopt +o default 2>/dev/null
            return
            ;;
        --isolation)
            _kafkalog_words 'read_uncommitted read_committed' "$cur"
            return
            ;;
        --open-transactions)
            _kafkalog_words 'wait abort' "$cur"
            return
            ;;
        --log-dir|--store|--config-file|--schema)
            return
            ;;
        --layout)
            _kafkalog_words 'auto local aiven' "$cur"
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        --decode)
            _kafkalog_words 'auto' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic -p --partition --merge --offset --time --key --key-regex --header --producer-id --partition-leader-epoch --transactional-only --limit --tail --until --follow --max-bytes --isolation --open-transactions --log-dir --log-start-offset --high-watermark --store --layout --key-prefix --private-key --config-file -f --template --format --decode --schema --raw --force -q --quiet -v --verbose -j --jobs -V --version -h --help' "$cur"
        fi
        ;;
    grep)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        -p|--partition)
            _kafkalog_partitions 2 "$cur"
            return
            ;;
        -H|--in-header|--offset|--time|--key|--key-regex|--header|--producer-id|--partition-leader-epoch|--limit|--tail|-m|--max-count|-A|--after-context|-B|--before-context|-f|--template|-j|--jobs|--max-decompressed-bytes|--max-batch-bytes)
            compopt +o default 2>/dev/null
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        --decode)
            _kafkalog_words 'auto' "$cur"
            return
            ;;
        --schema)
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic -p --partition -k --in-key -s --in-value -H --in-header -F --fixed-strings -E --regex -i --ignore-case --offset --time --key --key-regex --header --producer-id --partition-leader-epoch --transactional-only --limit --tail -m --max-count --include-deleted -c --count -l --files-with-matches -o --only-matching -A --after-context -B --before-context -f --template --force --format --decode --schema -q --quiet -v --verbose -j --jobs --max-decompressed-bytes --max-batch-bytes -V --version -h --help' "$cur"
        fi
        ;;
    groups)
        case $prev in
        -g|--group|--at|--expiring|--now)
            compopt +o default 2>/dev/null
            return
            ;;
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        --config-file)
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl csv' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-g --group -t --topic --at --history --expiring --now --commands --config-file --format -V --version -h --help' "$cur"
        fi
        ;;
    help)
        case $prev in
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-h --help' "$cur"
        elif (( COMP_CWORD == at + 1 )); then
            _kafkalog_words 'append check compact completion delete-records diff du dump-log explain export fetch grep groups help ls metadata recover remote report requests restore retain roll serve spark truncate txn undelete verify' "$cur"
        fi
        ;;
    metadata)
        case $prev in
        --offset|--type|--at|--from|--to)
            compopt +o default 2>/dev/null
            return
            ;;
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        --config-file)
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '--offset --type -t --topic --unclean --at --deleted --from --to --config-file --secrets --format -V --version -h --help' "$cur"
        elif (( COMP_CWORD == at + 1 )); then
            _kafkalog_words 'cat tree diff verify' "$cur"
        fi
        ;;
    remote)
        case $prev in
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-V --version -h --help' "$cur"
        elif (( COMP_CWORD == at + 1 )); then
            _kafkalog_words 'cost download list offsets orphans repair-metadata restore upload verify' "$cur"
        fi
        ;;
    remote\ cost)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        --config-file|--store)
            return
            ;;
        --layout)
            _kafkalog_words 'auto local aiven' "$cur"
            return
            ;;
        --key-prefix|--private-key|--price-per-gib)
            compopt +o default 2>/dev/null
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic --config-file --store --layout --key-prefix --private-key --price-per-gib --format -V --version -h --help' "$cur"
        fi
        ;;
    remote\ download)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        --config-file|--store|--into)
            return
            ;;
        --layout)
            _kafkalog_words 'auto local aiven' "$cur"
            return
            ;;
        --key-prefix|--private-key)
            compopt +o default 2>/dev/null
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic --config-file --store --layout --key-prefix --private-key --into -n --dry-run --format -V --version -h --help' "$cur"
        fi
        ;;
    remote\ list)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        --config-file)
            return
            ;;
        --segment)
            compopt +o default 2>/dev/null
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic --config-file --events --segment --format -V --version -h --help' "$cur"
        fi
        ;;
    remote\ offsets)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        --config-file)
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic --config-file --format -V --version -h --help' "$cur"
        fi
        ;;
    remote\ orphans)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        --config-file|--store|--quarantine)
            return
            ;;
        --metadata-partitions|--key-prefix|--private-key|--older-than)
            compopt +o default 2>/dev/null
            return
            ;;
        --layout)
            _kafkalog_words 'auto local aiven' "$cur"
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic --config-file --metadata-partitions --store --layout --key-prefix --private-key --delete --older-than -n --dry-run --quarantine --no-quarantine -y --yes --format -V --version -h --help' "$cur"
        fi
        ;;
    remote\ repair-metadata)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        --config-file|--log-dir|--store|--quarantine)
            return
            ;;
        --metadata-partitions|--key-prefix|--private-key)
            compopt +o default 2>/dev/null
            return
            ;;
        --layout)
            _kafkalog_words 'auto local aiven' "$cur"
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic --config-file --log-dir --metadata-partitions --store --layout --key-prefix --private-key --replace-undecodable -n --dry-run --quarantine --no-quarantine -q --quiet -v --verbose --format -V --version -h --help' "$cur"
        fi
        ;;
    remote\ restore)
        case $prev in
        --into|--log-dir|--config-file|--store|--quarantine)
            return
            ;;
        --topic-id|--metadata-partitions|--key-prefix|--private-key)
            compopt +o default 2>/dev/null
            return
            ;;
        --layout)
            _kafkalog_words 'auto local aiven' "$cur"
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '--into --log-dir --full --topic-id --metadata-partitions --config-file --store --layout --key-prefix --private-key -n --dry-run --quarantine --no-quarantine -q --quiet -v --verbose --format -V --version -h --help' "$cur"
        fi
        ;;
    remote\ upload)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        --config-file|--store|--quarantine)
            return
            ;;
        --layout)
            _kafkalog_words 'auto local aiven' "$cur"
            return
            ;;
        --key-prefix|--private-key)
            compopt +o default 2>/dev/null
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic --config-file --store --layout --key-prefix --private-key -n --dry-run --quarantine --no-quarantine -q --quiet -v --verbose --format -V --version -h --help' "$cur"
        fi
        ;;
    remote\ verify)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        --config-file|--store)
            return
            ;;
        --layout)
            _kafkalog_words 'auto local aiven' "$cur"
            return
            ;;
        --key-prefix|--private-key|--sample)
            compopt +o default 2>/dev/null
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic --config-file --store --layout --key-prefix --private-key --deep --sample -q --quiet -v --verbose --format -V --version -h --help' "$cur"
        fi
        ;;
    report)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        -p|--partition)
            _kafkalog_partitions 2 "$cur"
            return
            ;;
        -o|--output|--compare|--config-file)
            return
            ;;
        --time|--title|--config|--now|-j|--jobs)
            compopt +o default 2>/dev/null
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic -p --partition -o --output --time --compare --title --redact --config --config-file --now --format -j --jobs -V --version -h --help' "$cur"
        fi
        ;;
    requests)
        case $prev in
        --api|--client|--producer-id|--max-message-bytes)
            compopt +o default 2>/dev/null
            return
            ;;
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '--api --client -t --topic --producer-id --max-message-bytes --format -V --version -h --help' "$cur"
        fi
        ;;
    restore)
        case $prev in
        --older-than)
            compopt +o default 2>/dev/null
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '--list --prune --older-than --force --salvage -n --dry-run -y --yes -q --quiet -v --verbose --bytes --format -V --version -h --help' "$cur"
        fi
        ;;
    retain)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        -p|--partition)
            _kafkalog_partitions 2 "$cur"
            return
            ;;
        --log-dir|--quarantine|--config-file|--metrics-textfile)
            return
            ;;
        --free|--recovery-point|--log-start-offset|--high-watermark|--config|--now|-j|--jobs)
            compopt +o default 2>/dev/null
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic -p --partition --explain --log-dir --free --as-much-as-possible --keep-deleted --quarantine --clean-start --recovery-point --log-start-offset --high-watermark --config --config-file --now -n --dry-run -y --yes -q --quiet -v --verbose --bytes --format -j --jobs --metrics-textfile -V --version -h --help' "$cur"
        fi
        ;;
    roll)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        -p|--partition)
            _kafkalog_partitions 2 "$cur"
            return
            ;;
        --to|--recovery-point|--log-start-offset|--high-watermark|--config|--now|-j|--jobs)
            compopt +o default 2>/dev/null
            return
            ;;
        --config-file|--metrics-textfile)
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic -p --partition --to --keep-deleted --clean-start --recovery-point --log-start-offset --high-watermark --config --config-file --now -n --dry-run -y --yes -q --quiet -v --verbose --bytes --format -j --jobs --metrics-textfile -V --version -h --help' "$cur"
        fi
        ;;
    serve)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        --offsets)
            _kafkalog_words 'disk memory' "$cur"
            return
            ;;
        --listen|--advertise|--key-prefix|--private-key)
            compopt +o default 2>/dev/null
            return
            ;;
        --store|--log-dir|--config-file|--metrics-textfile)
            return
            ;;
        --layout)
            _kafkalog_words 'auto local aiven' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic --internal --follow --offsets --accept-produce --listen --advertise --store --layout --key-prefix --private-key --log-dir --config-file --metrics-textfile -q --quiet -v --verbose -V --version -h --help' "$cur"
        fi
        ;;
    spark)
        case $prev in
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-V --version -h --help' "$cur"
        elif (( COMP_CWORD == at + 1 )); then
            _kafkalog_words 'compact export import recover stats undo verify' "$cur"
        fi
        ;;
    spark\ compact)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        --config|--now|--dedupe-buffer-size|--master|--conf)
            compopt +o default 2>/dev/null
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic --config --now --force --dedupe-buffer-size --master --conf -q --quiet -v --verbose --format -V --version -h --help' "$cur"
        fi
        ;;
    spark\ export)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        --offset|--time|--split-bytes|--to|--columns|--partition-by|--target-file-size|--master|--conf)
            compopt +o default 2>/dev/null
            return
            ;;
        --isolation)
            _kafkalog_words 'read_uncommitted read_committed' "$cur"
            return
            ;;
        --on-corruption)
            _kafkalog_words 'fail skip report' "$cur"
            return
            ;;
        --mode)
            _kafkalog_words 'error append overwrite' "$cur"
            return
            ;;
        --table)
            _kafkalog_words 'parquet orc delta iceberg' "$cur"
            return
            ;;
        --decode)
            _kafkalog_words 'auto' "$cur"
            return
            ;;
        --schema|--checkpoint)
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic --offset --time --isolation --split-bytes --on-corruption --to --mode --table --columns --partition-by --target-file-size --decode --schema --checkpoint --master --conf --format -V --version -h --help' "$cur"
        fi
        ;;
    spark\ import)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        --table)
            _kafkalog_words 'parquet orc delta iceberg' "$cur"
            return
            ;;
        --to|--config|--master|--conf)
            compopt +o default 2>/dev/null
            return
            ;;
        --mode)
            _kafkalog_words 'error append overwrite' "$cur"
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic --table --to --mode --config --master --conf --format -V --version -h --help' "$cur"
        fi
        ;;
    spark\ recover)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        --config|--now|--master|--conf)
            compopt +o default 2>/dev/null
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic --config --now --salvage --master --conf -q --quiet -v --verbose --format -V --version -h --help' "$cur"
        fi
        ;;
    spark\ stats)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        --split-bytes|--top|--master|--conf)
            compopt +o default 2>/dev/null
            return
            ;;
        --on-corruption)
            _kafkalog_words 'fail skip report' "$cur"
            return
            ;;
        --by)
            _kafkalog_words 'topic codec producer hour header key' "$cur"
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic --split-bytes --on-corruption --by --top --master --conf --format -V --version -h --help' "$cur"
        fi
        ;;
    spark\ undo)
        case $prev in
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '--format -V --version -h --help' "$cur"
        fi
        ;;
    spark\ verify)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        --config|--split-bytes|--master|--conf)
            compopt +o default 2>/dev/null
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic --config --split-bytes --master --conf -q --quiet -v --verbose --format -V --version -h --help' "$cur"
        fi
        ;;
    truncate)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        -p|--partition)
            _kafkalog_partitions 2 "$cur"
            return
            ;;
        --to|--recovery-point|--log-start-offset|--high-watermark|--config|--now|-j|--jobs)
            compopt +o default 2>/dev/null
            return
            ;;
        --quarantine|--config-file|--metrics-textfile)
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic -p --partition --to --fully --keep-deleted --quarantine --no-quarantine --clean-start --recovery-point --log-start-offset --high-watermark --config --config-file --now -n --dry-run -y --yes -q --quiet -v --verbose --bytes --format -j --jobs --metrics-textfile -V --version -h --help' "$cur"
        fi
        ;;
    txn)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        -p|--partition)
            _kafkalog_partitions 2 "$cur"
            return
            ;;
        --state)
            _kafkalog_words 'Empty Ongoing PrepareCommit PrepareAbort CompleteCommit CompleteAbort Dead PrepareEpochFence' "$cur"
            return
            ;;
        --older-than|--now)
            compopt +o default 2>/dev/null
            return
            ;;
        --config-file)
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic -p --partition --state --older-than --now --commands --config-file --format -V --version -h --help' "$cur"
        elif (( COMP_CWORD == at + 1 )); then
            _kafkalog_words 'list hanging show producers' "$cur"
        fi
        ;;
    undelete)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        -p|--partition)
            _kafkalog_partitions 2 "$cur"
            return
            ;;
        --topic-id|--pid)
            compopt +o default 2>/dev/null
            return
            ;;
        --to|--config-file|--quarantine)
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic -p --partition --list --as-new-topic --topic-id --to --pid --config-file -n --dry-run --quarantine --no-quarantine -q --quiet -v --verbose --format -V --version -h --help' "$cur"
        fi
        ;;
    verify-index)
        case $prev in
        -t|--topic)
            _kafkalog_partitions 1 "$cur"
            return
            ;;
        -p|--partition)
            _kafkalog_partitions 2 "$cur"
            return
            ;;
        --config|--now|--key-prefix|--private-key|-j|--jobs)
            compopt +o default 2>/dev/null
            return
            ;;
        --config-file|--quarantine|--store|--log-dir)
            return
            ;;
        --layout)
            _kafkalog_words 'auto local aiven' "$cur"
            return
            ;;
        --format)
            _kafkalog_words 'text json jsonl' "$cur"
            return
            ;;
        esac
        if [[ $cur == -* ]]; then
            _kafkalog_words '-t --topic -p --partition --config --config-file --rebuild --quarantine --no-quarantine -n --dry-run -y --yes --now --store --log-dir --layout --key-prefix --private-key -q --quiet -v --verbose --bytes --format -j --jobs -V --version -h --help' "$cur"
        fi
        ;;
    esac
}

complete -o default -o bashdefault -F _kafkalog kafkalog

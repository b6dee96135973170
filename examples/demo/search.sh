#!/usr/bin/env bash
# The program of the demo: searches words in files, one word after the other, as somebody does who looks
# for something. Knows nothing of foretell.
#
# usage: search.sh LIST PROGRESS WORD...    LIST names the files; a line a word goes to PROGRESS when done
set -euo pipefail
list=$1 progress=$2
shift 2
for word in "$@"; do
    # grep ends with 1 when a word is nowhere, xargs then with 123: no reason to stop.
    { xargs --arg-file="$list" --delimiter='\n' grep --count --no-filename --fixed-strings -- "$word" || true; } |
        awk -v word="$word" '{ lines += $1 } END { printf "%s %d\n", word, lines }'
    echo "$word" >>"$progress"
done

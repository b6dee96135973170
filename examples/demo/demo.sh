#!/usr/bin/env bash
# The demo: a real program on real files, on the plain kernel and under foretell, with the same memory.
# Run it with ./x demo, which builds the command first.
#
# The program is examples/demo/search.sh: grep over a tree of files, several words one after the other.
# The files are what this machine has: sources and documentation, copied once to a volume that is slow in
# a known way (foretell slowdisk), because a fast disk hides what caching and prefetching are worth. The
# memory is half of the files and a bit for the programs, enforced by a memory cgroup. The kernel runs twice,
# as it is and with a long readahead, because tuning alone helps some programs. Everything is removed at the
# end.
set -euo pipefail
# Numbers with a point, whatever the language.
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
foretell=$(cd "$here/../.." && pwd)/target/release/foretell

words=(mutex socket deprecated version)
tree_mib=240
# For the program, foretell itself and the page cache of everything that no rule matches. The kernel's side
# has it too, and may use it for the files.
headroom_mib=80
# Like a cloud volume. (The same words as in foretell slowdisk up --help.)
volume=(--latency-ms 1 --channels 8 --mb-s 200 --total-mb-s 250)
name=demo-$$

say() { printf '%s\n' "$*" >&2; }
die() { clear_bar; say "demo: $*"; exit 2; }

# ---- progress ----------------------------------------------------------------------------------

# Preparation, and three sides with a step for each word.
steps=$((2 + 3 * ${#words[@]}))
done_steps=0
bar() {
    [ -t 2 ] || return 0
    local width=30 filled
    filled=$((width * done_steps / steps))
    printf '\r\e[K  [%s%s] %s' "$(printf '%*s' "$filled" '' | tr ' ' '#')" \
        "$(printf '%*s' $((width - filled)) '' | tr ' ' '.')" "$1" >&2
}
clear_bar() { [ ! -t 2 ] || printf '\r\e[K' >&2; }

# ---- what is taken down again ------------------------------------------------------------------

scratch=$(mktemp -d)
group=''
device=''
cleanup() {
    clear_bar
    [ -z "$device" ] || "$foretell" slowdisk down "$name" --force || true
    [ -z "$group" ] || remove_group
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# ---- a memory cgroup, of version 1 or 2 --------------------------------------------------------

groups=''
find_groups() {
    # A version 1 hierarchy with the memory controller beats version 2, which then does not have it.
    groups=$(awk '$3 == "cgroup" && $4 ~ /(^|,)memory(,|$)/ { print $2; exit }' /proc/mounts)
    [ -z "$groups" ] || { group_version=1; return 0; }
    groups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
    group_version=2
    [ -n "$groups" ] && grep -qw memory "$groups/cgroup.controllers" || return 1
    grep -qw memory "$groups/cgroup.subtree_control" || echo +memory >"$groups/cgroup.subtree_control"
}

# A group with room for $1 MiB.
make_group() {
    group=$groups/foretell-$name
    mkdir "$group"
    local bytes=$(($1 << 20))
    if [ "$group_version" = 1 ]; then
        echo "$bytes" >"$group/memory.limit_in_bytes"
    else
        echo "$bytes" >"$group/memory.max"
        echo 0 >"$group/memory.swap.max" 2>/dev/null || true
    fi
}

# Removes the group and every page that was loaded in it, so that the next side starts cold.
remove_group() {
    local try current pid
    for try in $(seq 100); do
        if [ "$group_version" = 1 ]; then
            echo 0 >"$group/memory.force_empty" 2>/dev/null || true
            break
        fi
        current=$(cat "$group/memory.current")
        [ "$current" -gt $((1 << 20)) ] || break
        echo "$current" >"$group/memory.reclaim" 2>/dev/null || true
    done
    for try in $(seq 100); do
        rmdir "$group" 2>/dev/null && break
        # Only when interrupted is anything left in it.
        for pid in $(cat "$group/cgroup.procs"); do kill -KILL "$pid" 2>/dev/null || true; done
        sleep 0.1
    done
    group=''
}

# Runs a command in the group.
in_group() { bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"; }

# ---- the files ---------------------------------------------------------------------------------

# Small files that this machine has, up to $tree_mib MiB, as a list of paths.
choose_files() {
    local places=() place
    for place in "${CARGO_HOME:-$HOME/.cargo}/registry/src" /usr/include /usr/lib/python3* /usr/local/go/src \
        /usr/share/doc /usr/share /usr/lib; do
        [ ! -d "$place" ] || places+=("$place")
    done
    # find fails on what it may not read; what it could read will do.
    { find "${places[@]}" -xdev -type f -size +8k -size -1024k -readable -printf '%s\t%p\n' 2>/dev/null || true; } |
        awk -F '\t' -v most=$((tree_mib << 20)) '!seen[$2]++ { total += $1; if (total > most) exit; print $2 }'
}

# ---- one side ----------------------------------------------------------------------------------

read_bytes() { "$foretell" slowdisk stats "$name" | sed -n 's/.*"read_bytes": *\([0-9]*\).*/\1/p' | head -n 1; }

# Where the kernel's readahead for the volume is set, in KiB.
readahead_file() {
    local source
    source=$(awk -v at="$scratch/volume" '$2 == at { print $1 }' /proc/mounts)
    echo "/sys/block/${source#/dev/}/queue/read_ahead_kb"
}

# A row of the table, of the side that ran last.
row() { printf '    %-32s %7.1f s   %8d MiB' "$1" "$seconds" "$mib"; }

# Runs the search under a command; sets seconds and mib. $1 names the side, the rest is the command.
run_side() {
    local side=$1 before began pid status=0 passed
    shift
    : >"$scratch/progress"
    make_group $((budget_mib + headroom_mib))
    before=$(read_bytes)
    began=$EPOCHREALTIME
    in_group "$@" "$here/search.sh" "$scratch/list" "$scratch/progress" "${words[@]}" \
        >"$scratch/$side.answers" 2>"$scratch/$side.messages" </dev/null &
    pid=$!
    passed=$done_steps
    while kill -0 "$pid" 2>/dev/null; do
        done_steps=$((passed + $(wc -l <"$scratch/progress")))
        bar "$side: '${words[$((done_steps - passed < ${#words[@]} ? done_steps - passed : 0))]}'"
        sleep 0.2
    done
    wait "$pid" || status=$?
    seconds=$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
    done_steps=$((passed + ${#words[@]}))
    [ "$status" = 0 ] || die "$side ended with $status: $(tail -n 3 "$scratch/$side.messages")"
    mib=$((($(read_bytes) - before) >> 20))
    remove_group
}

# ---- without privileges ------------------------------------------------------------------------

without_control() {
    say "Here foretell cannot take control: $1."
    say "$("$foretell" doctor 2>&1 | tail -n 1) ('foretell doctor' says more)"
    say "The part that works without: the program runs as it would without foretell."
    choose_files >"$scratch/chosen"
    head -n 2000 "$scratch/chosen" >"$scratch/list"
    : >"$scratch/progress"
    "$foretell" run --budget 64M --rule '/**=mru' -- \
        "$here/search.sh" "$scratch/list" "$scratch/progress" "${words[@]}" </dev/null
    say "For the comparison run it as root: sudo ./x demo"
    exit 0
}

# ---- the demo ----------------------------------------------------------------------------------

[ -x "$foretell" ] || die "the command is not built: run ./x build"
[ "$(id -u)" = 0 ] || without_control "it needs root"
[ -r /sys/kernel/btf/vmlinux ] || without_control "this kernel has no BTF (/sys/kernel/btf/vmlinux)"
find_groups || without_control "no memory cgroup is mounted"

bar "collecting files of this machine"
choose_files >"$scratch/chosen"
[ -s "$scratch/chosen" ] || die "found no files to search"
mkdir "$scratch/volume"
"$foretell" slowdisk up "$scratch/volume" --name "$name" --size 512M "${volume[@]}" --stay >/dev/null
device=up
done_steps=1
bar "copying them to the volume"
make_group 1024
mkdir "$scratch/volume/files"
in_group bash -c 'tar -C / --create --files-from="$1" --ignore-failed-read 2>/dev/null |
    tar -C "$2" --extract --no-same-owner && sync -f "$2"' copy \
    <(sed 's|^/||' "$scratch/chosen") "$scratch/volume/files"
remove_group
done_steps=2

find "$scratch/volume/files" -type f | sort >"$scratch/list"
files=$(wc -l <"$scratch/list")
tree_bytes=$(find "$scratch/volume/files" -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')
budget_mib=$((tree_bytes >> 21))
# What will be read, in order: all files, once for each word.
for _ in "${words[@]}"; do cat "$scratch/list"; done >"$scratch/hints"

readahead=$(readahead_file)
before=$(cat "$readahead")
run_side kernel env
kernel_row=$(row "the kernel as it is") kernel_seconds=$seconds
echo 4096 >"$readahead"
run_side readahead env
readahead_row=$(row "the kernel, readahead of 4 MiB") readahead_seconds=$seconds
echo "$before" >"$readahead"
run_side foretell "$foretell" run --budget "${budget_mib}M" --rule "$scratch/volume/files/**=mru" \
    --hints "$scratch/hints" --
clear_bar

cat <<TEXT

  ${#words[@]} words, one after the other, searched with grep in $files files ($((tree_bytes >> 20)) MiB) of this machine,
  on a volume as slow as one in the cloud: 1 ms latency, 8 channels, 250 MB/s. Each side starts cold, in the
  same memory: $budget_mib MiB, half of the files, and $headroom_mib MiB for the programs.

                                       elapsed   read from the volume
$kernel_row
$readahead_row
$(row "under foretell")

TEXT
if cmp -s "$scratch/kernel.answers" "$scratch/foretell.answers"; then
    awk -v k="$kernel_seconds" -v r="$readahead_seconds" -v f="$seconds" \
        'BEGIN { printf "  %.1f times as fast as the better of the two, with the same answers:\n  ", (r < k ? r : k) / f }'
    awk '{ printf "%s%s in %d lines", (NR > 1 ? ", " : ""), $1, $2 } END { print "." }' "$scratch/kernel.answers"
else
    die "the answers differ: $(diff "$scratch/kernel.answers" "$scratch/foretell.answers" | head -n 4)"
fi
cat <<TEXT

  Why: the second pass needs first what LRU has just dropped, so the kernel reads everything again for
  each word; under MRU half of it stays. And the list says what comes next, so that it is fetched in time.
  What foretell says about it:

$(sed '/by process/,$d; s/^/    /' "$scratch/foretell.messages")

  Now with a program of yours:
    target/release/foretell run --budget 1G --rule '/data/**=mru' -- PROGRAM
TEXT

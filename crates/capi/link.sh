#!/bin/sh
# Links libforetell.so from the static library: link.sh libforetell.a OUTPUT
# Not left to cargo, whose own list of exported symbols cannot be combined with versions.
set -eu
here=$(dirname "$0")
exec "${CC:-cc}" -shared -o "$2" \
    -Wl,-soname,libforetell.so.0 -Wl,--version-script="$here/foretell.map" \
    -Wl,--whole-archive "$1" -Wl,--no-whole-archive \
    -Wl,--gc-sections -Wl,-z,relro -Wl,-z,now -Wl,-z,defs -Wl,--as-needed -lpthread -ldl -lgcc_s -lc

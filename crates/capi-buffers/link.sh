#!/bin/sh
# Links libforetell-buffers.so from the static library: link.sh libforetell-buffers.a OUTPUT
# Not left to cargo, whose own list of exported symbols cannot be combined with versions.
set -eu
here=$(dirname "$0")
exec "${CC:-cc}" -shared -o "$2" \
    -Wl,-soname,libforetell-buffers.so.0 -Wl,--version-script="$here/foretell-buffers.map" \
    -Wl,--whole-archive "$1" -Wl,--no-whole-archive \
    -Wl,--gc-sections -Wl,-z,relro -Wl,-z,now -Wl,-z,defs -Wl,--as-needed -lpthread -ldl -lgcc_s -lm -lc

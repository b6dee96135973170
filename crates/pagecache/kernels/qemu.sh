# Debian's packages by name, unpacked and never installed, and QEMU out of them. To be sourced, with `scratch` (a folder to
# unpack into), `command` (what its user has typed), `say` and `die`. APT_CONFIG is another one's afterwards.

# Where this machine has Debian's packages from; another system may name a place.
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(ORIGIN) $(SITE)' 2>/dev/null | awk '$1 == "Debian" && $2 !~ /security/ { print $2; exit }')}
[ -n "$mirror" ] || die "this machine's packages are not Debian's: say where those are, DEBIAN_MIRROR=ADDRESS $command"

mkdir -p "$scratch"/apt/{lists/partial,cache/archives/partial} "$scratch"/debs
export APT_CONFIG=$scratch/apt/apt.conf
cat >"$APT_CONFIG" <<TEXT
Dir::State::lists "$scratch/apt/lists";
Dir::Cache "$scratch/apt/cache";
Dir::Etc::sourcelist "$scratch/apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Sandbox::User "root";
TEXT
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
for release in bookworm bookworm-backports trixie-backports; do
    echo "deb [signed-by=$keyring] $mirror $release main"
done >"$scratch/apt/sources.list"
apt-get update -qq || die "the lists of packages cannot be had"

# Unpacks packages into a folder, once.
unpack() {
    local into=$1 package
    shift
    for package in "$@"; do
        [ ! -e "$into/.$package" ] || continue
        (cd "$scratch/debs" && rm -f "${package%%/*}"_*.deb && apt-get download -qq "$package") || die "no package $package"
        mkdir -p "$into/$(dirname ".$package")"
        dpkg -x "$scratch/debs/${package%%/*}"_*.deb "$into"
        touch "$into/.$package"
        rm -f "$scratch/debs/${package%%/*}"_*.deb
    done
}

tools=$scratch/tools
busybox=$tools/bin/busybox
unpack "$tools" busybox-static
if [ ! -e "$tools/.qemu" ]; then
    say "unpacking QEMU"
    apt-get install -qq -y --no-install-recommends --download-only -t bookworm-backports qemu-system-x86 ||
        die "QEMU cannot be had"
    for package in "$scratch"/apt/cache/archives/*.deb; do dpkg -x "$package" "$tools"; done
    touch "$tools/.qemu"
fi
# Where this machine has a library already, that one is used.
qemu() {
    local patience_s=$1
    shift
    LD_LIBRARY_PATH=$tools/usr/lib/x86_64-linux-gnu:$tools/lib/x86_64-linux-gnu \
        exec timeout "$patience_s" "$tools/usr/bin/qemu-system-x86_64" -L "$tools/usr/share/qemu" -L "$tools/usr/share/seabios" "$@"
}

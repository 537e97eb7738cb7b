# The life of a package: STAGE FIRST SECOND. It runs in a mount namespace of its own, on a copy of the
# system by an overlay, so nothing of it is left.
stage=$1 first=$2 second=$3
mount --make-rprivate /
mount -t tmpfs none "$stage"
mkdir "$stage/upper" "$stage/work" "$stage/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$stage/upper,workdir=$stage/work" "$stage/root"
root=$stage/root
cp "$first" "$root/first.deb"
cp "$second" "$root/second.deb"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount -t tmpfs none "$root/run"
mount -t tmpfs none "$root/tmp"
export DEBIAN_FRONTEND=noninteractive

inside() { chroot "$root" "$@"; }
ask() { inside redis-cli -s /run/apus/apus.sock "$@"; }
fail() { echo "$1"; inside cat /var/log/apus/apus.log; exit 1; }

start() { # as the unit does
    inside install -d -o apus -g apus -m 750 /run/apus
    inside setpriv --reuid apus --regid apus --init-groups \
        /usr/bin/apus /etc/apus/apus.conf --port 0 --supervised no > "$stage/output" 2>&1 &
    server=$!
    until [ "$(ask PING 2>&1)" = PONG ]; do
        kill -0 "$server" || { cat "$stage/output"; fail "it does not start"; }
        sleep 0.05
    done
}

inside dpkg --install /first.deb
start
[ "$(ask SET kept 1)" = OK ] || fail "it does not serve"
[ "$(ask CONFIG SET maxmemory 100mb)" = OK ] || fail "no CONFIG SET"
[ "$(ask CONFIG REWRITE)" = OK ] || fail "it may not write its configuration"
[ "$(inside stat -c %U /var/lib/apus)" = apus ] || fail "its folder is another's"
ask SHUTDOWN
wait "$server" || fail "it does not end well"

inside dpkg --install /second.deb
inside grep -q '^maxmemory 100mb' /etc/apus/apus.conf || fail "the upgrade lost the configuration"
start
[ "$(ask GET kept)" = 1 ] || fail "the upgrade lost the data"
ask SHUTDOWN
wait "$server" || fail "it does not end well"

inside dpkg --remove apus
[ ! -e "$root/usr/bin/apus" ] || fail "the binary stays"
[ -e "$root/etc/apus/apus.conf" ] && [ -e "$root/var/lib/apus/dump.rdb" ] || fail "too much went"
inside dpkg --purge apus
[ ! -e "$root/etc/apus" ] && [ ! -e "$root/var/lib/apus" ] || fail "not all went"
echo "all of it"

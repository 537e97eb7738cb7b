#!/bin/sh
# Makes a Debian package of a binary: build.sh BINARY VERSION FOLDER prints the package's path.
# Invariant: all it packs is the binary and what lies in `packaging`; nothing of the machine gets in.
set -eu

binary=$1 version=$2 folder=$3
own=$(cd "$(dirname "$0")/.." && pwd)
architecture=$(dpkg --print-architecture)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

put() { # MODE SOURCE TARGET
    install -D -m "$1" "$2" "$tree/$3"
}

put 755 "$binary" usr/bin/apus
put 640 "$own/apus.conf" etc/apus/apus.conf
put 644 "$own/systemd/apus.service" lib/systemd/system/apus.service
put 644 "$own/debian/logrotate" etc/logrotate.d/apus
put 644 "$own/completions/apus.bash" usr/share/bash-completion/completions/apus
put 644 "$own/completions/_apus" usr/share/zsh/vendor-completions/_apus
put 644 "$own/completions/apus.fish" usr/share/fish/vendor_completions.d/apus.fish
put 644 "$own/debian/copyright" usr/share/doc/apus/copyright
put 644 "$own/grafana/apus.json" usr/share/doc/apus/examples/grafana/apus.json
put 644 "$own/prometheus/apus.rules.yml" usr/share/doc/apus/examples/prometheus/apus.rules.yml
put 644 "$own/../CHANGELOG.md" usr/share/doc/apus/changelog
for page in apus.1 apus-bench.1 apus-check.1 apus-cli.1 apus-ping.1 apus.conf.5; do
    put 644 "$own/man/$page" "usr/share/man/man${page##*.}/$page"
done
gzip -9n "$tree/usr/share/doc/apus/changelog" "$tree"/usr/share/man/man?/*

for script in postinst prerm postrm; do
    put 755 "$own/debian/$script" "DEBIAN/$script"
done
printf '%s\n' /etc/apus/apus.conf /etc/logrotate.d/apus > "$tree/DEBIAN/conffiles"
size=$(du -k -s "$tree" | cut -f1)
cat > "$tree/DEBIAN/control" <<END
Package: apus
Version: $version
Architecture: $architecture
Maintainer: The authors of Apus <apus@localhost>
Installed-Size: $size
Depends: adduser, libc6 (>= 2.34), libgcc-s1
Section: database
Priority: optional
Description: in-memory data store that speaks the protocols of Redis and memcached
 Apus is one process that uses every core: each command runs on the thread that
 read it, on memory that all threads share. Clients and tools of Redis and of
 memcached work with it as they are.
END
mkdir -p "$folder"
package=$folder/apus_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$tree" "$package" >&2
echo "$package"

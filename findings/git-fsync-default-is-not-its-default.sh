#!/usr/bin/env bash
# git 2.39 syncs each commit if core.fsync has the value that its manual calls equivalent to the default.
#
# The manual says that the default is equivalent to core.fsync=committed,-loose-object. Unset, a commit makes no fsync. With
# that value, it syncs each loose object and the branch: within one value, an added component wins over a removed one,
# wherever it stands, so that "-loose-object" has no effect behind "committed". "committed" also adds references, which
# the manual does not list in it. Who writes the default down, or builds upon it, slows each commit by its syncs, and a
# benchmark with "the documented default" is not one of the default.
# Needs Debian 12. Prints what git add and git commit sync for each value, and fails if it changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root home
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install git='1:2.39.5-*' strace=6.1-0.1 >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH HOME="$work/home" GIT_CONFIG_NOSYSTEM=1 GIT_EXEC_PATH="$work/root/usr/lib/git-core"
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
git=$work/root/usr/bin/git

"$git" --version
"$git" init -q --template= repository 2>/dev/null
cd repository

# Runs git under strace and prints how many loose objects and references it syncs.
synced() {
    ../root/usr/bin/strace -f -y -o ../trace -e trace=fsync,fdatasync,sync_file_range "$git" "$@"
    echo "$(grep -c 'sync.*/objects/.*/tmp_obj' ../trace || true) objects," \
        "$(grep -c 'sync.*/refs/' ../trace || true) references"
}

{
    for value in unset committed,-loose-object -loose-object,committed -loose-object; do
        options=()
        [ "$value" = unset ] || options=(-c "core.fsync=$value")
        echo "$value" >file
        echo "core.fsync $value: add syncs $(synced "${options[@]}" add file)," \
            "commit syncs $(synced "${options[@]}" commit -q -m "$value")"
    done
} | tee ../outcome
cd ..
diff outcome - <<'TEXT'
core.fsync unset: add syncs 0 objects, 0 references, commit syncs 0 objects, 0 references
core.fsync committed,-loose-object: add syncs 1 objects, 0 references, commit syncs 2 objects, 1 references
core.fsync -loose-object,committed: add syncs 1 objects, 0 references, commit syncs 2 objects, 1 references
core.fsync -loose-object: add syncs 0 objects, 0 references, commit syncs 0 objects, 0 references
TEXT

set -f;
umask 077;
read -r size || exit 0;
sudo=;
if [ "$1" = sudo ]; then sudo="sudo -n --"; fi;
d=;
why=;
leave() { [ -z "$d" ] || rm -rf "$d"; };
trap leave EXIT;
trap "exit 129" HUP INT TERM PIPE;
refuse() { echo "fsb-refused" "$@"; exit 3; };
program=fsb;
if [ "$size" -gt 0 ]; then
  for parent in "${TMPDIR:-/tmp}" /var/tmp "$HOME"; do
    d=$(LC_ALL=C mktemp -d "$parent/fsb-XXXXXXXXXX" 2>&1) || { why="$why $d;"; d=; continue; };
    program=$d/fsb;
    no=$(export LC_ALL=C; { head -c "$size" /dev/zero >"$program" && printf "#!/bin/sh\n" >"$program" && chmod 700 "$program" && $sudo "$program"; } 2>&1 </dev/null) && break;
    why="$why $no;";
    rm -rf "$d";
    d=;
  done;
  kind=directory;
  case "$why" in *"No space left"*|*"quota exceeded"*) kind=space;; esac;
  [ -n "$d" ] || refuse $kind "no directory can hold and run a program of $size bytes:" $why;
  echo "fsb-ready $d";
  timeout 1800 head -c "$size" >"$program";
  [ "$(wc -c <"$program")" -eq "$size" ] || refuse directory "the copy in $d is incomplete";
fi;
version=$("$program" --version 2>&1 </dev/null);
case $? in
0) ;;
127) refuse library "the copied program does not run:" $version;;
*) refuse directory "the copied program does not run:" $version;;
esac;
echo "fsb-version $version";
$sudo "$program" __remote;
exit $?

echo "fsb-host $(uname -srm)";
echo "fsb-own $(fsb --version 2>/dev/null)";
while read -r first second; do echo "fsb-driver ${second:-$first}"; done 2>/dev/null </proc/filesystems;
aliases="/lib/modules/$(uname -r)/modules.alias";
PATH="$PATH:/usr/sbin:/sbin:/usr/local/sbin";
IFS=:;
for place in $PATH; do
  for file in "$place"/mk*; do if [ -x "$file" ]; then echo "fsb-program ${file##*/}"; fi; done;
done;
unset IFS;
if [ -r "$aliases" ]; then
  sed -n "s/^alias fs-\([^ ]*\) .*/fsb-driver \1/p" "$aliases";
  echo "fsb-drivers all";
elif command -v modprobe >/dev/null; then :;
else echo "fsb-drivers all";
fi;
if [ "$1" = sudo ]; then why=$(sudo -n true 2>&1 </dev/null) || echo "fsb-sudo" $why; fi;
exit 0

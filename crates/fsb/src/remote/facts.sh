echo "fsb-host $(uname -srm)";
echo "fsb-own $(fsb --version 2>/dev/null)";
if [ "$1" = sudo ]; then why=$(sudo -n true 2>&1 </dev/null) || echo "fsb-sudo" $why; fi;
exit 0

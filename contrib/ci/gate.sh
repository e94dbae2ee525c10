#!/bin/sh
# Runs an fsb command with reports for a CI system and returns its exit code.
# README.md beside this file describes options, exit codes and reports.
set -u

usage() {
    echo "usage: gate.sh [--cannot-tell fail|warn] [--reports DIR] COMMAND [ARGUMENTS]" >&2
    echo "COMMAND and ARGUMENTS are those of fsb, such as: compare old/ new/ --fail-if slower" >&2
    exit 2
}

cannot_tell=fail
reports=fsb-reports
while [ $# -gt 0 ]; do
    case $1 in
        --cannot-tell) [ $# -ge 2 ] || usage; cannot_tell=$2; shift 2 ;;
        --reports) [ $# -ge 2 ] || usage; reports=$2; shift 2 ;;
        -*) echo "gate.sh: unknown option '$1'" >&2; usage ;;
        *) break ;;
    esac
done
case $cannot_tell in fail | warn) ;; *) echo "gate.sh: --cannot-tell is 'fail' or 'warn', not '$cannot_tell'" >&2; usage ;; esac
[ $# -gt 0 ] || usage

mkdir -p "$reports" || exit 3
for name in junit.xml comment.md annotations.txt codequality.json; do
    rm -f "$reports/fsb.$name" || exit 3
done

command=$1
shift
# FSB may have several words, such as 'sudo fsb'. Options precede the arguments, which may end in
# a command of their own.
# shellcheck disable=SC2086
${FSB:-fsb} "$command" --format text \
    -o "$reports/fsb.junit.xml" \
    -o "$reports/fsb.comment.md" \
    -o "$reports/fsb.annotations.txt" \
    -o "$reports/fsb.codequality.json" \
    "$@"
code=$?

# fsb returns 2 for an invalid request, too, and then writes no report.
case $code in
    0) answer=passed ;;
    1) answer=failed ;;
    2) if [ -e "$reports/fsb.junit.xml" ]; then answer=cannot-tell; else answer=error; fi ;;
    *) answer=error ;;
esac

if [ "${GITHUB_ACTIONS:-}" = true ] && [ -e "$reports/fsb.annotations.txt" ]; then
    cat "$reports/fsb.annotations.txt"
fi
if [ -n "${GITHUB_STEP_SUMMARY:-}" ] && [ -e "$reports/fsb.comment.md" ]; then
    cat "$reports/fsb.comment.md" >> "$GITHUB_STEP_SUMMARY"
fi
if [ -n "${GITHUB_OUTPUT:-}" ]; then
    echo "answer=$answer" >> "$GITHUB_OUTPUT"
fi

# Another code than "cannot tell", which a job may allow.
if [ "$answer" = error ] && [ "$code" = 2 ]; then
    exit 3
fi
if [ "$answer" = cannot-tell ] && [ "$cannot_tell" = warn ]; then
    echo "gate.sh: fsb cannot tell; this is a warning because of --cannot-tell warn" >&2
    exit 0
fi
exit "$code"

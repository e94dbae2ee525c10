#!/usr/bin/env bash
# mnesia:sync_transaction of Erlang 25 returns before its data reach a write call.
#
# The documentation says that sync_transaction waits until the data have been committed and logged to disk on every node.
# The log of Mnesia collects what it gets for some seconds before it writes it. Ten transactions of either kind return
# without any write to the log, so that not only a power loss but the end of the Erlang process loses them. The data are
# written and synced by mnesia:sync_log. A benchmark of sync_transaction measures memory.
# Needs Debian 12. Prints the calls on the log for each step, and fails if they change.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install erlang-mnesia='1:25.2.3+dfsg-*' erlang-base='1:25.2.3+dfsg-*' strace=6.1-0.1 >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH
ROOTDIR=$work/root/usr/lib/erlang
BINDIR=$(echo "$ROOTDIR"/erts-*/bin)
export ROOTDIR BINDIR EMU=beam PROGNAME=erl HOME=$work PATH=$BINDIR:$PATH

cat >log.erl <<'ERLANG'
-module(log).
-export([main/0]).

main() ->
    application:set_env(mnesia, dir, "database"),
    ok = mnesia:create_schema([node()]),
    ok = mnesia:start(),
    {atomic, ok} = mnesia:create_table(t, [{disc_copies, [node()]}]),
    ok = mnesia:wait_for_tables([t], 60000),
    ok = mnesia:sync_log(),
    Write = fun() -> mnesia:write({t, 1, 1}) end,
    mark("10 transactions"),
    [{atomic, ok} = mnesia:transaction(Write) || _ <- lists:seq(1, 10)],
    mark("10 sync_transactions"),
    [{atomic, ok} = mnesia:sync_transaction(Write) || _ <- lists:seq(1, 10)],
    mark("sync_log"),
    ok = mnesia:sync_log(),
    mark("end"),
    halt(0).

%% The marks separate the steps in the trace.
mark(Text) -> ok = file:write_file("marks", ["step ", Text, ":"], [append]).
ERLANG

erlexec -noshell -eval 'io:format("Erlang ~s, ", [erlang:system_info(otp_release)]), {ok, log} = compile:file("log"), halt(0).'
erlexec -noshell -eval 'ok = application:load(mnesia), {ok, V} = application:get_key(mnesia, vsn),
    io:format("Mnesia ~s~n", [V]), halt(0).'
root/usr/bin/strace -f -y -o trace -e trace=write,writev,pwrite64,pwritev,fsync,fdatasync \
    "$BINDIR/erlexec" -noshell -s log main
awk -F'"' '
    /"step / { name = substr($2, 6); order[++count] = name }
    /(write|writev|pwrite64|pwritev)\(.*LATEST\.LOG/ { writes[name]++ }
    /sync\(.*LATEST\.LOG/ { syncs[name]++ }
    END { for (i = 1; i < count; i++)
              print order[i], (writes[order[i]] ? "some" : "no"), "writes,", syncs[order[i]] + 0, "syncs" }
' trace | tee outcome
diff outcome - <<'TEXT'
10 transactions: no writes, 0 syncs
10 sync_transactions: no writes, 0 syncs
sync_log: some writes, 1 syncs
TEXT

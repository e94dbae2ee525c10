# Starts Slurm with this machine as its only node, runs the command of the arguments, and waits until nothing is left in
# ./shared. Runs in mount, network and process namespaces of its own, which end with it.
set -e
mount -t tmpfs -o mode=755 tmpfs /run
# Open MPI names its shared memory after the host, the user and the number of the job, which is 1 in every new Slurm.
mount -t tmpfs tmpfs /dev/shm
# Slurm resolves addresses only if there is one beside 127.0.0.1.
ip link set lo up
ip addr add 10.0.0.1/32 dev lo

head -c 1024 /dev/urandom >/run/munge.key
chmod 400 /run/munge.key
munged --force --foreground --key-file=/run/munge.key --socket=/run/munge.socket --pid-file=/run/munged.pid \
    --log-file=/run/munged.log --seed-file=/run/munged.seed 2>/run/munged.err &

mkdir /run/state /run/spool /run/tmp
node=$(hostname -s)
cat >/run/slurm.conf <<END
ClusterName=fsb
SlurmctldHost=$node(10.0.0.1)
AuthInfo=socket=/run/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation=/run/state
SlurmdSpoolDir=/run/spool
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
NodeName=$node NodeAddr=10.0.0.1 CPUs=4
PartitionName=all Nodes=$node Default=YES
END
echo PMIxCliTmpDirBase=/run/tmp >/run/mpi.conf
export SLURM_CONF=/run/slurm.conf TMPDIR=/run/tmp

until [ -S /run/munge.socket ]; do sleep 0.1; done
slurmctld -D 2>/run/slurmctld.log &
slurmd -D 2>/run/slurmd.log &
until sinfo --noheader --format %t 2>/dev/null | grep -q idle; do sleep 0.1; done

code=0
"$@" || code=$?
until [ -z "$(ls -A shared)" ]; do sleep 0.1; done
exit $code

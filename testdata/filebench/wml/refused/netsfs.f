# A network file server: its sizes come from tables.
set $dir=/tmp
set $nthreads=1
set $wrtiosize = randvar(type=tabular, min=1k, round=1k, randtable =
{{ 0,   1k,    7k},
 {50,   9k,   15k},
 {50,  17k,   23k}
})
set $fileidx = randvar(type=gamma, min=0, gamma=100)

define fileset name=files,path=$dir,size=16k,entries=1000,dirwidth=20,prealloc=60
define process name=netclient,instances=1
{
  thread name=fileuser,memsize=10m,instances=$nthreads
  {
    flowop openfile name=openfile6,filesetname=files,indexed=$fileidx,fd=6
    flowop appendfilerand name=appendfilerand6,iosize=$wrtiosize,fd=6
    flowop closefile name=closefile6,fd=6
  }
}
run 60

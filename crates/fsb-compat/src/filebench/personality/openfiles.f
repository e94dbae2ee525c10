set $dir=/tmp
set $nfiles=50000
set $meandirwidth=100
set $filesize=1k
set $nthreads=16

define fileset name=bigfileset,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,prealloc=100

define process name=worker,instances=1
{
  thread name=workerthread,memsize=10m,instances=$nthreads
  {
    flowop openfile name=open1,filesetname=bigfileset,fd=1
    flowop closefile name=close1,fd=1
  }
}

run 60

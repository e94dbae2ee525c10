set $dir=/tmp
set $count=50000
set $filesize=16k
set $nthreads=16
set $meandirwidth=100
set mode quit firstdone

define fileset name=bigfileset,path=$dir,size=$filesize,entries=$count,dirwidth=$meandirwidth,prealloc=100,paralloc,reuse

define process name=worker,instances=1
{
  thread name=workerthread,memsize=10m,instances=$nthreads
  {
    flowop deletefile name=deletefile1,filesetname=bigfileset
    flowop opslimit name=limit
  }
}

run 60

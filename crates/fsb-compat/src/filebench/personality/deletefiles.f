# Written for FSBench, with the order of operations and the numbers of filebench 1.5. Variables and operations have
# filebench's names, which --set and results use.
set $dir=/tmp
set $count=50000
set $filesize=16k
set $nthreads=16
set $meandirwidth=100
set mode quit firstdone

define fileset name=files,path=$dir,size=$filesize,entries=$count,dirwidth=$meandirwidth,prealloc=100,paralloc,reuse

define process name=workers,instances=1
{
  thread name=work,memsize=10m,instances=$nthreads
  {
    flowop deletefile name=deletefile1,filesetname=files
    flowop opslimit name=limit
  }
}

run 60

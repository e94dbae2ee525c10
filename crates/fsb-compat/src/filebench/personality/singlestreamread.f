# Written for FSBench, with the order of operations and the numbers of filebench 1.5. Variables and operations have
# filebench's names, which --set and results use.
set $dir=/tmp
set $filesize=5g
set $iosize=1m
set $nthreads=1

define file name=large,path=$dir,size=$filesize,prealloc,reuse

define process name=workers,instances=1
{
  thread name=work,memsize=10m,instances=$nthreads
  {
    flowop read name=seqread-file,filename=large,iosize=$iosize
  }
}

run 60

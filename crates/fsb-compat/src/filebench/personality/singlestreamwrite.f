# Written for FSBench, with the order of operations and the numbers of filebench 1.5. Variables and operations have
# filebench's names, which --set and results use.
set $dir=/tmp
set $nthreads=1
set $iosize=1m

define file name=large,path=$dir,prealloc

define process name=writer,instances=1
{
  thread name=seqwrite,memsize=10m,instances=$nthreads
  {
    flowop write name=seqwrite,filename=large,iosize=$iosize
  }
}

run 60

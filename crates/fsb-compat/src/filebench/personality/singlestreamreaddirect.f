# Written for FSBench, with the order of operations and the numbers of filebench 1.5. Variables and operations have
# filebench's names, which --set and results use.
set $dir=/tmp
set $filesize=5g
set $nthreads=1
set $iosize=1m

define file name=large,path=$dir,size=$filesize,prealloc,reuse

define process name=reader,instances=1
{
  thread name=seqread,memsize=10m,instances=$nthreads
  {
    flowop read name=seqread,filename=large,iosize=$iosize,directio
  }
}

run 60

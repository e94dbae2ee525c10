# Written for FSBench, with the order of operations and the numbers of filebench 1.5. Variables and operations have
# filebench's names, which --set and results use.
set $dir=/tmp
set $filesize=5g
set $iosize=8k
set $nthreads=1
define file name=large,path=$dir,size=$filesize,prealloc,reuse,paralloc
define process name=random,instances=1
{
  thread name=reads,memsize=5m,instances=$nthreads
  {
    flowop read name=rand-read1,filename=large,iosize=$iosize,random,workingset=0
  }
  thread name=writes,memsize=5m,instances=$nthreads
  {
    flowop write name=rand-write1,filename=large,iosize=$iosize,random,directio=false
  }
}
psrun -10 60

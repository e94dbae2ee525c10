# Written for FSBench, with the order of operations and the numbers of filebench 1.5. Variables and operations have
# filebench's names, which --set and results use.
set $dir=/tmp
set $filesize=5g
set $iosize=8k
set $nthreads=1
set $workingset=0
set $directio=0

define file name=large,path=$dir,size=$filesize,prealloc,reuse,paralloc

define process name=workers,instances=1
{
  thread name=work,memsize=10m,instances=$nthreads
  {
    flowop read name=rand-read1,filename=large,iosize=$iosize,random,workingset=$workingset,directio=$directio
  }
}

run 60

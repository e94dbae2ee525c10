# Written for FSBench, with the order of operations and the numbers of filebench 1.5. Variables and operations have
# filebench's names, which --set and results use.
set $dir=/tmp
set $filesize=1g
set $nthreads=1
set $iosize=1m

define file name=large,path=$dir,size=$filesize,prealloc,reuse
define file name=large2,path=$dir,size=$filesize,prealloc,reuse
define file name=large3,path=$dir,size=$filesize,prealloc,reuse
define file name=large4,path=$dir,size=$filesize,prealloc,reuse
define file name=large5,path=$dir,size=$filesize,prealloc,reuse

define process name=reader,instances=1
{
  thread name=seqread1,memsize=10m,instances=$nthreads
  {
    flowop read name=seqread1,filename=large,iosize=$iosize
  }
  thread name=seqread2,memsize=10m,instances=$nthreads
  {
    flowop read name=seqread2,filename=large2,iosize=$iosize
  }
  thread name=seqread3,memsize=10m,instances=$nthreads
  {
    flowop read name=seqread3,filename=large3,iosize=$iosize
  }
  thread name=seqread4,memsize=10m,instances=$nthreads
  {
    flowop read name=seqread4,filename=large4,iosize=$iosize
  }
  thread name=seqread5,memsize=10m,instances=$nthreads
  {
    flowop read name=seqread5,filename=large5,iosize=$iosize
  }
}

run 60

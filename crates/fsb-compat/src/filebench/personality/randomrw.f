set $dir=/tmp
set $filesize=5g
set $iosize=8k
set $nthreads=1
define file name=largefile1,path=$dir,size=$filesize,prealloc,reuse,paralloc
define process name=rand-rw,instances=1
{
  thread name=rand-r-thread,memsize=5m,instances=$nthreads
  {
    flowop read name=rand-read1,filename=largefile1,iosize=$iosize,random,workingset=0
  }
  thread name=rand-w-thread,memsize=5m,instances=$nthreads
  {
    flowop write name=rand-write1,filename=largefile1,iosize=$iosize,random,directio=false
  }
}
psrun -10 60

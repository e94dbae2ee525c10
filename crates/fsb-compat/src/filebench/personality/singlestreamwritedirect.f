set $dir=/tmp
set $filesize=5g
set $iosize=1m
set $nthreads=1

define file name=largefile1,path=$dir,size=$filesize,prealloc,reuse

define process name=worker,instances=1
{
  thread name=workerthread,memsize=10m,instances=$nthreads
  {
    flowop write name=seqwrite-file,filename=largefile1,iosize=$iosize,directio
  }
}

run 60

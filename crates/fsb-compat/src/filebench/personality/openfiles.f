# Written for FSBench, with the order of operations and the numbers of filebench 1.5. Variables and operations have
# filebench's names, which --set and results use.
set $dir=/tmp
set $nfiles=50000
set $meandirwidth=100
set $filesize=1k
set $nthreads=16

define fileset name=files,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,prealloc=100

define process name=workers,instances=1
{
  thread name=work,memsize=10m,instances=$nthreads
  {
    flowop openfile name=open1,filesetname=files,fd=1
    flowop closefile name=close1,fd=1
  }
}

run 60

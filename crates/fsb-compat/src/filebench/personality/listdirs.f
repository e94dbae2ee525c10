# Written for FSBench, with the order of operations and the numbers of filebench 1.5. Variables and operations have
# filebench's names, which --set and results use.
set $dir=/tmp
set $nfiles=50000
set $meandirwidth=5
set $nthreads=16

define fileset name=files,path=$dir,size=0,entries=$nfiles,dirwidth=$meandirwidth,prealloc

define process name=workers,instances=1
{
  thread name=work,memsize=10m,instances=$nthreads
  {
    flowop listdir name=open1,filesetname=files
  }
}

run 60
